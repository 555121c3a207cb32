"""Histories written down by hand, one short line for each thing that somebody did."""

import json
from collections.abc import Mapping
from typing import Any

from barnabas.verify.checker import check
from barnabas.verify.findings import Verdict
from barnabas.verify.parsing import parse_lines

Sends = Mapping[str, int | None] | list[str]
"""Values and the offsets they got; or only values."""


class Recorded:
    """Everything happens in topic t; values are in partition 0 unless they end in "@1"."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def line(self, process: str, kind: str, f: str, value: Any = None, **more: Any) -> None:
        """One event, a millisecond after the last."""
        time = 1_000_000 * (len(self.lines) + 1)
        event = {"process": process, "type": kind, "f": f, "time": time, **more}
        if value is not None:
            event["value"] = value
        self.lines.append(event)

    # --- writers -------------------------------------------------------------------------------

    def begin(self, process: str, f: str, values: list[str], *steps: Any, **more: Any) -> None:
        """The invoke of a send or txn."""
        self.line(process, "invoke", f, [*map(_send, values), *steps], **more)

    def end(self, process: str, f: str, kind: str, sends: Sends | None = None) -> None:
        """Its end."""
        value = None
        if isinstance(sends, Mapping):
            value = [_send(each, offset) for each, offset in sends.items()]
        self.line(process, kind, f, value)

    def send(self, process: str, sends: Sends, kind: str = "ok", **more: Any) -> None:
        """A whole send."""
        self.begin(process, "send", list(sends), **more)
        self.end(process, "send", kind, None if kind == "fail" else sends)

    def txn(self, process: str, sends: Sends, kind: str = "ok", *steps: Any) -> None:
        """A whole transaction; one that failed was not asked to commit."""
        self.begin(process, "txn", list(sends), *steps)
        if kind != "fail":
            self.line(process, "commit", "txn")
        self.end(process, "txn", kind, sends if kind == "ok" else None)

    # --- readers -------------------------------------------------------------------------------

    def assign(self, process: str, *starts: int | None) -> None:
        """Partition by partition."""
        value = [["t", number, start] for number, start in enumerate(starts)]
        self.line(process, "ok", "assign", value)

    def poll(
        self, process: str, records: dict[int, str], position: int | None = None,
        *, partition: int = 0, **more: Any,
    ) -> None:  # fmt: skip
        """What somebody got."""
        pairs = [[offset, value] for offset, value in records.items()]
        step = ["poll", "t", partition, pairs]
        self.line(process, "ok", "poll", [step if position is None else [*step, position]], **more)

    def peek(self, process: str, records: dict[int, str], **more: Any) -> None:
        """A poll that sees everything."""
        self.poll(process, records, isolation="read_uncommitted", **more)

    def found(self, process: str, offset: int | None) -> None:
        """The offset of group g."""
        self.line(process, "invoke", "offset-fetch")
        self.line(process, "ok", "offset-fetch", [["offset", "g", "t", 0, offset]])

    # --- the verdict ---------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        """As the checker says."""
        lines = [json.dumps(each).encode() + b"\n" for each in self.lines]
        return check(parse_lines(lines))

    def anomalies(self) -> dict[str, int]:
        """What was found, and how often."""
        return {each.value: count for each, count in self.verdict().counts.items()}


def _send(value: str, offset: int | None = None) -> list[Any]:
    name, _, key = value.partition("#")
    partition = int(name.partition("@")[2] or 0)
    return ["send", "t", partition, value, offset, key or None]


def offset(position: int) -> list[Any]:
    """A step of a transaction: group g commits its place in t-0."""
    return ["offset", "g", "t", 0, position]
