"""What a replay writes, chunk by chunk, decided once and written down.

Chunks are ranges of offsets, so an archive that has grown or was compacted since does not matter.
A run that was killed is gone on with by the same plan, and so each chunk has the same number.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.layout import REPLAYS, ArchivedFile, ArchiveError, Range
from barnabas.spark.tables import durable

CHUNK_BYTES: Final = 128 * 1024 * 1024
"""A transaction's worth: written in seconds, and far from any timeout."""
_ID_LETTERS: Final = 16
_VERSION: Final = 1


@dataclass(frozen=True)
class Selection:
    """Which records are meant, as a person has said it."""

    from_offsets: tuple[tuple[int, int], ...] = ()
    """Partition and offset; only these partitions, each from there on."""
    partitions: tuple[int, ...] = ()
    """Only these; all when empty."""
    since: str = ""
    until: str = ""
    """As they were written: `-1h` means the same replay when it is gone on with a day later."""
    to_offsets: tuple[tuple[int, int], ...] = ()
    """Partition and offset; only these partitions, each up to there and without it."""

    def __post_init__(self) -> None:
        """Refuse what ends before it begins, whatever the archive holds."""
        froms = dict(self.from_offsets)
        for partition, end in self.to_offsets:
            first = froms.get(partition)
            if first is not None and end < first:
                raise ArchiveError(
                    f"--to-offset {partition}:{end} is before --from-offset {partition}:{first}: "
                    "choose an end that comes after the beginning."
                )

    def said(self) -> dict[str, Any]:
        """What makes it another one."""
        said = asdict(self)
        if not self.to_offsets:
            # Plans that were begun before there were ends keep their ids, and are gone on with.
            del said["to_offsets"]
        return said


@dataclass(frozen=True)
class Target:
    """Where to, and how."""

    topic: str
    topic_id: str | None
    cluster_id: str | None
    delivery: str
    by_key: bool


@dataclass(frozen=True)
class Plan:
    """A replay: what it writes, and how much of that is done."""

    id: str
    sink_id: str
    since_ms: int | None
    until_ms: int | None
    chunks: tuple[Mapping[int, Range], ...]
    records: int
    """About how many, if no time was given exactly."""
    done: int = 0
    """Chunks that are known to be in the topic; the one after may be, too."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to write."""
        return self.done >= len(self.chunks)

    def advanced(self) -> "Plan":
        """One more chunk is in."""
        return replace(self, done=self.done + 1)


def plan_id(contents: Contents, selection: Selection, target: Target) -> str:
    """The same command over the same archive into the same topic is the same replay."""
    said = json.dumps([contents.snapshot.table_id, selection.said(), asdict(target)])
    return hashlib.sha256(said.encode()).hexdigest()[:_ID_LETTERS]


def make_plan(
    contents: Contents,
    identity: str,
    selection: Selection,
    times_ms: tuple[int | None, int | None],
    chunk_bytes: int = CHUNK_BYTES,
) -> Plan:
    """Cut what was chosen into chunks, of which each has its part of every partition."""
    since_ms, until_ms = times_ms
    files = {
        partition: [file for file in _pieces(contents, partition, chosen) if _is_in(file, times_ms)]
        for partition, chosen in _chosen(contents, selection).items()
    }
    total = sum(file.data_bytes for pieces in files.values() for file in pieces)
    count = max(1, -(-total // chunk_bytes))
    ends_of = {p: cuts(pieces, count) for p, pieces in files.items() if _records(pieces)}
    chunks = [
        {p: Range(ends[n], ends[n + 1]) for p, ends in ends_of.items() if ends[n] < ends[n + 1]}
        for n in range(count)
    ]
    return Plan(
        identity,
        f"barnabas-replay-{identity}-{uuid.uuid4().hex[:8]}",
        since_ms,
        until_ms,
        tuple(chunk for chunk in chunks if chunk),
        sum(map(_records, files.values())),
    )


def _chosen(contents: Contents, selection: Selection) -> dict[int, Range]:
    """Which offsets of which partitions; ArchiveError for what the archive does not have."""
    there = contents.ranges
    froms, tos = dict(selection.from_offsets), dict(selection.to_offsets)
    wanted = {*froms, *tos, *selection.partitions}
    for partition in sorted(wanted):
        if partition not in there:
            raise ArchiveError(
                f"The archive {contents.folder} has no partition {partition} of {contents.topic}: "
                f"it has {', '.join(map(str, there)) or 'none yet'}."
            )
    _check_are_there(contents, froms, "from {}: choose one of these")
    _check_are_there(contents, tos, "up to {}: choose one of these, or the one after the last")
    return {
        p: Range(froms.get(p, each.first), tos.get(p, each.end))
        for p, each in there.items()
        if p in wanted or not wanted
    }


def _check_are_there(contents: Contents, offsets: Mapping[int, int], what: str) -> None:
    for partition, offset in offsets.items():
        first, end = contents.ranges[partition]
        if not first <= offset <= end:
            raise ArchiveError(
                f"The archive {contents.folder} has offsets {first} to {end - 1} of partition "
                f"{partition}, so it can not be replayed {what.format(offset)}."
            )


def _pieces(contents: Contents, partition: int, chosen: Range) -> list[ArchivedFile]:
    """The files of a range; of those at its edges only the part that is meant."""
    found = []
    for file in contents.files(partition, *chosen):
        first, end = max(file.first, chosen.first), min(file.end, chosen.end)
        part, whole = end - first, file.end - file.first
        found.append(
            file._replace(
                first=first,
                end=end,
                # Rounded up: a part that holds few records for its offsets is not one without any.
                records=-(-file.records * part // whole),
                data_bytes=-(-file.data_bytes * part // whole),
            )
        )
    return found


def _is_in(file: ArchivedFile, times_ms: tuple[int | None, int | None]) -> bool:
    """Whether some of its records may be of the time that is asked for."""
    since_ms, until_ms = times_ms
    if since_ms is not None and (file.newest_ms is None or file.newest_ms < since_ms):
        return False
    return until_ms is None or (file.oldest_ms is not None and file.oldest_ms < until_ms)


def _records(files: Iterable[ArchivedFile]) -> int:
    return sum(file.records for file in files)


def cuts(files: Sequence[ArchivedFile], count: int) -> list[int]:
    """Where to cut one partition so that each of `count` chunks gets about the same of it."""
    total = sum(file.data_bytes for file in files)
    ends = [files[0].first]
    before = 0
    waiting = iter(range(1, count))
    mark = next(waiting, None)
    for file in files:
        size = max(file.data_bytes, 1)
        while mark is not None and total * mark / count <= before + size:
            part = (total * mark / count - before) / size
            ends.append(max(ends[-1], file.first + int((file.end - file.first) * part)))
            mark = next(waiting, None)
        before += size
    ends += [files[-1].end] * (count + 1 - len(ends))
    return ends


def plan_path(folder: str, identity: str) -> str:
    """Where a plan is kept."""
    return os.path.join(folder, REPLAYS, f"{identity}.json")


def read_plan(folder: str, identity: str) -> Plan | None:
    """None where there is none; ArchiveError for one that is damaged."""
    path = plan_path(folder, identity)
    try:
        with open(path, encoding="utf-8") as file:
            said: dict[str, Any] = json.load(file)
        if said.pop("version") != _VERSION:
            raise ValueError("another version of Barnabas wrote it")
        chunks = tuple(
            {int(partition): Range(*each) for partition, each in chunk.items()}
            for chunk in said.pop("chunks")
        )
        return Plan(chunks=chunks, **said)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ArchiveError(
            f"The plan {path} of this replay can not be read ({problem}): look at what is in the "
            "topic already, then delete the plan to begin anew."
        ) from problem


def write_plan(folder: str, plan: Plan) -> None:
    """Whole or not at all, and on the disk when this returns."""
    path = plan_path(folder, plan.id)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    said = asdict(plan) | {
        "version": _VERSION,
        "chunks": [{str(p): list(each) for p, each in chunk.items()} for chunk in plan.chunks],
    }
    durable.replace(path, json.dumps(said).encode())
