"""Kafka's own DumpLogSegments: run it on files, and read what it prints."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.compat.real_kafka import run_tool

SUFFIXES: Final = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
COMPLAINTS: Final = ("mismatch", "Mismatch", "out of order", "isvalid: false", "Invalid",
                     "corrupt", "Exception", "does not pass", "no corresponding")  # fmt: skip
_BATCH: Final = re.compile(
    r"^baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .*"
    r"producerId: (?P<producer>-?\d+) .*compresscodec: (?P<codec>\w+) .*isvalid: (?P<valid>\w+)"
)
# The tool wonders at every segment that does not begin at 0, in Kafka's own logs too.
_QUIRK: Final = re.compile(r"Non-consecutive offsets in |  -1 is followed by \d+$")
# Compaction leaves gaps, and the tool says so of Kafka's own logs too.
_GAP: Final = re.compile(r"Non-consecutive offsets in |  \d+ is followed by \d+$")
_RECORD: Final = re.compile(
    r"^\| offset: (?P<offset>\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+)"
    r" valueSize: (?P<value_size>-?\d+) .*headerKeys: \[(?P<headers>.*?)\]"
    r"(?: key: (?P<key>\S+))?(?: payload: (?P<payload>.*))?$"
)


@dataclass
class DumpedRecord:
    """A record as the tool shows it."""

    offset: int
    timestamp: int
    key: str | None
    payload: str | None
    header_keys: tuple[str, ...]


@dataclass
class Dumped:
    """What the tool said of one file."""

    path: Path
    codecs: set[str] = field(default_factory=set)
    producers: set[int] = field(default_factory=set)
    records: list[DumpedRecord] = field(default_factory=list)
    batches: int = 0
    entries: list[str] = field(default_factory=list)


def dump(directory: Path, *options: str, compacted: bool = False) -> list[Dumped]:
    """Run the tool over a partition's folder; a complaint of any kind is an error."""
    files = sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES)
    said = run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log",
        *options, "--files", ",".join(map(str, files)),
    )  # fmt: skip
    lines = [line for line in said.splitlines() if not _QUIRK.match(line)]
    if compacted:
        lines = [line for line in lines if not _GAP.match(line)]
    for complaint in (*COMPLAINTS, "is followed by"):
        line = next((one for one in lines if complaint in one), None)
        assert line is None, f"the tool complains: {line}"
    return list(_parse(lines))


def check_indexes(directory: Path) -> str:
    """The tool's sanity check of the index files."""
    files = sorted(directory.glob("*.index"))
    return run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--index-sanity-check",
        "--files", ",".join(map(str, files)),
    )  # fmt: skip


def _parse(lines: Iterable[str]) -> Iterator[Dumped]:
    current: Dumped | None = None
    for line in lines:
        if line.startswith("Dumping "):
            if current is not None:
                yield current
            current = Dumped(Path(line.removeprefix("Dumping ")))
        elif current is not None:
            _take(current, line)
    if current is not None:
        yield current


def _take(current: Dumped, line: str) -> None:
    batch = _BATCH.match(line)
    record = _RECORD.match(line)
    if batch:
        assert batch["valid"] == "true"
        current.batches += 1
        current.codecs.add(batch["codec"])
        current.producers.add(int(batch["producer"]))
    elif record:
        current.records.append(
            DumpedRecord(
                offset=int(record["offset"]),
                timestamp=int(record["timestamp"]),
                key=record["key"],
                payload=record["payload"],
                header_keys=tuple(filter(None, record["headers"].split(","))),
            )
        )
    elif not line.startswith("Log starting offset"):
        current.entries.append(line)
