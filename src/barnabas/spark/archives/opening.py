"""A folder becomes the archive of a topic, or is found to be it; everything else is refused."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.layout import (
    CHECKPOINTS,
    CLUSTER_ID,
    GAPS,
    LOCK,
    SPARK_LOG,
    STAGING,
    STARTS,
    TOPIC,
    TOPIC_ID,
    ArchiveError,
    Range,
    spark_schema,
)
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.places import Place, listed
from barnabas.spark.tables.log import LOG_FOLDER, TableLog
from barnabas.spark.tables.snapshot import OWNER, Shape

_OURS: Final = (CHECKPOINTS, LOCK, SPARK_LOG, STAGING, LOG_FOLDER)
"""What may lie in a folder without a table: of an archive that was killed while it was made."""


class GapError(ArchiveError):
    """Records were gone before they could be archived."""


@dataclass(frozen=True)
class TopicNow:
    """A topic as its cluster has it at this moment."""

    name: str
    servers: str
    id: str | None
    cluster_id: str | None
    earliest: Mapping[int, int]
    latest: Mapping[int, int]
    """Where each partition's log ends, open transactions included."""

    @classmethod
    def ask(cls, cluster: Cluster, name: str) -> "TopicNow":
        """UnknownTopicError if there is none."""
        count = cluster.partition_counts([name])[name]
        places = [Place(name, partition) for partition in range(count)]
        earliest = cluster.earliest(places)
        return cls(
            name,
            str(cluster.connection),
            topic_id(cluster, name),
            cluster.cluster_id(),
            {place.partition: earliest[place] for place in places},
            {
                place.partition: offset
                for place, offset in cluster.latest(places, committed=False).items()
            },
        )


def topic_id(cluster: Cluster, name: str) -> str | None:
    """As the cluster has it now, not as it is remembered; None before Kafka 2.8."""
    cluster.forget_leaders()
    found = cluster.topic_ids([name]).get(name)
    return None if found is None else str(found)


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """One process at a time writes to an archive; the lock goes with the process that holds it."""
    path = os.path.join(folder, LOCK)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise ArchiveError(
                f"Another process{f' ({holder})' if holder else ''} archives into {folder}: stop "
                "it first, or name another folder."
            ) from problem
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def make_folder(folder: str) -> None:
    """So that it is there; ArchiveError for one that holds something else than an archive."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise ArchiveError(f"{folder} is no folder: name one for the archive.")
    if os.path.isdir(folder):
        strange = sorted(set(os.listdir(folder)) - {*_OURS})
        if strange and not os.path.isdir(os.path.join(folder, LOG_FOLDER)):
            raise ArchiveError(
                f"{folder} holds {listed(strange)} and no archive: name an empty folder, or one "
                "that is not there yet."
            )
        return
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        raise ArchiveError(
            f"The folder {folder} can not be made ({problem.strerror}): choose another, or make "
            "it and give yourself the right to write to it."
        ) from problem


def open_archive(log: TableLog, topic: TopicNow, start: str, *, accept_gap: bool) -> Contents:
    """The archive of this topic, made if there is none; ArchiveError where it can not go on.

    `start` is where a new one begins: earliest, latest or an offset.
    """
    snapshot = log.snapshot()
    if snapshot is None:
        contents = Contents(log.folder, log.create(_shape(topic, start)))
    else:
        contents = Contents(log.folder, snapshot)
        _check_same(contents, topic)
    _check_not_beyond(contents, topic)
    gaps = gaps_of(contents, topic)
    if not gaps:
        return contents
    if not accept_gap:
        raise GapError(_lost(contents.folder, topic, gaps))
    return _with_gaps(log, contents, gaps)


def check_archive(folder: str, topic: TopicNow, start: str, *, accept_gap: bool) -> None:
    """All that `open_archive` would refuse, without making or changing anything."""
    if os.path.isdir(os.path.join(folder, LOG_FOLDER)):
        with locked(folder):
            snapshot = TableLog(folder).snapshot()
        if snapshot is not None:
            contents = Contents(folder, snapshot)
            _check_same(contents, topic)
            _check_not_beyond(contents, topic)
            gaps = gaps_of(contents, topic)
            if gaps and not accept_gap:
                raise GapError(_lost(folder, topic, gaps))
            return
    begins = _starts(topic, start)
    gone = {
        partition: Range(begins[str(partition)], earliest)
        for partition, earliest in topic.earliest.items()
        if earliest > begins[str(partition)]
    }
    if gone and not accept_gap:
        # Otherwise the archive would be there already, and could not begin anywhere else.
        raise GapError(_lost(folder, topic, gone))


def gaps_of(contents: Contents, topic: TopicNow) -> dict[int, Range]:
    """Offsets that are neither archived nor in the topic any more."""
    return {
        partition: Range(contents.end(partition), earliest)
        for partition, earliest in topic.earliest.items()
        if earliest > contents.end(partition)
    }


def _shape(topic: TopicNow, start: str) -> Shape:
    settings = {
        TOPIC: topic.name,
        OWNER: f"archive of the topic {topic.name}",
        STARTS: json.dumps(_starts(topic, start)),
    }
    if topic.id is not None:
        settings[TOPIC_ID] = topic.id
    if topic.cluster_id is not None:
        settings[CLUSTER_ID] = topic.cluster_id
    return Shape(spark_schema().json(), settings=settings)


def _starts(topic: TopicNow, start: str) -> dict[str, int]:
    if start == "earliest":
        return {str(partition): offset for partition, offset in topic.earliest.items()}
    if start == "latest":
        return {str(partition): offset for partition, offset in topic.latest.items()}
    if not (start.isascii() and start.isdigit() and len(start) < 20):
        raise ArchiveError(f"--from {start}: it is earliest, latest or an offset.")
    for partition, end in topic.latest.items():
        if int(start) > end:
            raise ArchiveError(
                f"--from {start}: {Place(topic.name, partition)} ends at {end}, so choose an "
                "offset that is not beyond it, or latest."
            )
    return {str(partition): int(start) for partition in topic.earliest}


def _check_same(contents: Contents, topic: TopicNow) -> None:
    folder = contents.folder
    if contents.topic != topic.name:
        raise ArchiveError(
            f"{folder} is the archive of the topic {contents.topic}, not of {topic.name}: name "
            "another folder."
        )
    if _differ(contents.cluster_id, topic.cluster_id):
        raise ArchiveError(
            f"{folder} is the archive of {topic.name} on the cluster {contents.cluster_id}, and "
            f"{topic.servers} is the cluster {topic.cluster_id}: check the servers, or name "
            "another folder."
        )
    if _differ(contents.topic_id, topic.id):
        raise made_again(contents)


def _differ(one: str | None, other: str | None) -> bool:
    """Where one is not known, they may be the same."""
    return one is not None and other is not None and one != other


def made_again(contents: Contents) -> ArchiveError:
    """The sentence about a topic that has the name of the archived one only."""
    ends = [f"{partition} from {each.end} on" for partition, each in contents.ranges.items()]
    lost = f" (partition {listed(ends, most=5)})" if ends else ""
    return ArchiveError(
        f"The topic {contents.topic} was deleted and made again since {contents.folder} was "
        f"written: what the old one held beyond the archive{lost} is lost, and the offsets of the "
        "new one begin anew, so archive it into another folder."
    )


def _check_not_beyond(contents: Contents, topic: TopicNow) -> None:
    for partition, covered in contents.ranges.items():
        if partition not in topic.latest:
            raise ArchiveError(
                f"{Place(topic.name, partition)} is in the archive {contents.folder} and not in "
                "the topic any more: the topic was made again, so archive it into another folder."
            )
        if covered.end > topic.latest[partition]:
            raise ArchiveError(
                f"The archive {contents.folder} goes up to offset {covered.end - 1} of "
                f"{Place(topic.name, partition)}, whose log ends at {topic.latest[partition]}: "
                "the topic was made again or brokers lost its end, so archive it into another "
                "folder."
            )


def _lost(folder: str, topic: TopicNow, gaps: Mapping[int, Range]) -> str:
    each = [
        f"{gap.first} to {gap.end - 1} of {Place(topic.name, partition)}"
        for partition, gap in gaps.items()
    ]
    return (
        f"Offsets {listed(each, most=5)} are gone from the topic and not in the archive "
        f"{folder}: retention or a deletion came first, so raise the topic's retention, "
        "and give --accept-gap to go on without them."
    )


def _with_gaps(log: TableLog, contents: Contents, gaps: Mapping[int, Range]) -> Contents:
    before = [[p, *gap] for p, theirs in contents.gaps.items() for gap in theirs]
    shape = contents.snapshot.shape
    recorded = json.dumps([*before, *([p, *gap] for p, gap in gaps.items())])
    shape = replace(shape, settings=dict(shape.settings) | {GAPS: recorded})
    snapshot = log.commit(
        contents.snapshot, operation="ACCEPT GAP", data_change=False, shape=shape, alone=True
    )
    return Contents(log.folder, snapshot)
