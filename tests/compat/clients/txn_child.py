"""Transactions of a library of another language: a child process, told what to do in JSON lines."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests.compat.clients.json_child import ChildRefusal, JsonChild
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
        self._child = JsonChild(self.name, self.command(), 2 * WAIT_S)
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
        self._child.close(WAIT_S)

    def _ask(self, op: str, **values: Any) -> Any:
        try:
            return self._child.ask(op, **values)
        except ChildRefusal as refusal:
            raise TxnRefusedError(refusal.name, refusal.detail) from None
