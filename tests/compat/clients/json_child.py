"""A child process that is told what to do in JSON lines, one answer for each request.

Requests are objects with "op"; answers are {"ok": ...} or {"error": Kafka's name, "detail": ...}.
The child ends when its standard input closes.
"""

import json
import subprocess
import threading
from typing import Any


class ChildRefusal(Exception):  # noqa: N818  # what the child said, not a fault of its own
    """The child answered with an error of Kafka's."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(name, detail)
        self.name = name
        self.detail = detail


class JsonChild:
    """The process and its two pipes."""

    def __init__(self, name: str, command: list[str], answer_wait_s: float) -> None:
        self._name = name
        self._answer_wait_s = answer_wait_s
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, op: str, **values: Any) -> Any:
        """Its answer; ChildRefusal when that is an error."""
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise AssertionError("the child has no pipes")
        # A child that says nothing is ended, so that reading its answer ends too.
        guard = threading.Timer(self._answer_wait_s, self._process.kill)
        guard.start()
        try:
            pipe_in.write(json.dumps({"op": op, **values}) + "\n")
            pipe_in.flush()
            line = pipe_out.readline()
        finally:
            guard.cancel()
        if not line:
            raise AssertionError(f"{self._name} ended at {op!r}")
        answer = json.loads(line)
        if "error" in answer:
            raise ChildRefusal(answer["error"], str(answer.get("detail", "")))
        return answer.get("ok")

    def close(self, wait_s: float) -> None:
        """Ask it to end; it is killed if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
