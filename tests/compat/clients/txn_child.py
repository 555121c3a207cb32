"""Transactions of a library of another language: a child process, told what to do in JSON lines."""

import json
import subprocess
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.compat.txn_port import (
    COMMITTED,
    TIMEOUT_MS,
    WAIT_S,
    Copy,
    Reading,
    TxnClient,
    TxnRefusedError,
)


class ChildTxn(TxnClient):
    """Passes every call on to the child; the child is gone without a goodbye at the end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._process = subprocess.Popen(
            self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ask("connect", bootstrap=bootstrap)

    @classmethod
    @abstractmethod
    def command(cls) -> list[str]:
        """How to start the child; builds it first where that is needed."""

    def open(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._ask("open", id=transactional_id, timeout_ms=timeout_ms)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, values: Sequence[str]) -> None:
        self._ask("send", topic=topic, partition=partition, values=list(values))

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {str(number): offset for number, offset in offsets.items()}
        self._ask("offsets", group=group, topic=topic, offsets=rows)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def read(self, topic: str, partition: int, until: str, how: Reading = COMMITTED) -> list[str]:
        found: list[str] = self._ask(
            "read", topic=topic, partition=partition, until=until, committed=how.committed,
            wait_ms=int(WAIT_S * 1000), linger_ms=int(how.linger_s * 1000),
        )  # fmt: skip
        return found

    def copy(self, job: Copy, transactional_id: str) -> None:
        self._ask("copy", id=transactional_id, **asdict(job))

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ask(self, op: str, **values: Any) -> Any:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise AssertionError("the child has no pipes")
        # A child that says nothing is ended, so that reading its answer ends too.
        guard = threading.Timer(2 * WAIT_S, self._process.kill)
        guard.start()
        try:
            pipe_in.write(json.dumps({"op": op, **values}) + "\n")
            pipe_in.flush()
            line = pipe_out.readline()
        finally:
            guard.cancel()
        if not line:
            raise AssertionError(f"{self.name} ended at {op!r}")
        answer = json.loads(line)
        if "error" in answer:
            raise TxnRefusedError(answer["error"], str(answer.get("detail", "")))
        return answer.get("ok")
