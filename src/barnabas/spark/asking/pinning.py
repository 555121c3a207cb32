"""Where each offset of a topic comes from: a file of its archive or the broker, and never both.

Decided once for a query and then kept: what is written, archived, compacted or deleted while it
runs can neither double nor lose a record of it; what it can do is to be in the way (see `Asker`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.spark.archives.contents import Contents
from barnabas.spark.asking.troubles import AskingError
from barnabas.spark.errors import UnknownTopicError
from barnabas.spark.places import Place

if TYPE_CHECKING:
    from barnabas.spark.cluster.cluster import Cluster

Ranges = Mapping[int, tuple[int, int]]
"""By partition: the first offset, and the one after the last."""


@dataclass(frozen=True)
class Pinned:
    """All of a topic, at one moment, each offset in one of the three parts."""

    topic: str
    contents: Contents | None = None
    before: Ranges = field(default_factory=dict)
    """At the broker, from before the archive was begun."""
    archived: Ranges = field(default_factory=dict)
    after: Ranges = field(default_factory=dict)
    """At the broker, and not archived yet."""
    notes: tuple[str, ...] = ()
    """What a person should know of what is missing."""

    def moved_from(self, before: "Pinned") -> bool:
        """Whether reading these may work where reading those did not."""
        return self._beginnings() != before._beginnings()

    def _beginnings(self) -> tuple[object, ...]:
        version = None if self.contents is None else self.contents.snapshot.version
        at_broker = [
            {number: each[0] for number, each in ranges.items()}
            for ranges in (self.before, self.after)
        ]
        return version, at_broker


def pin_archive(folder: str) -> Pinned:
    """What an archive holds, and nothing else."""
    contents = Contents(folder)
    notes = tuple(_lost_then(contents))
    return Pinned(contents.topic, contents, archived=dict(contents.ranges), notes=notes)


def pin_topic(cluster: "Cluster", topic: str, folder: str | None) -> Pinned:
    """What a topic and its archive hold together.

    UnknownTopicError for a topic that is neither at the broker nor archived. AskingError where
    the archive is that of another topic.
    """
    try:
        count = cluster.partition_counts([topic])[topic]
    except UnknownTopicError:
        if folder is None:
            raise
        alone = pin_archive(folder)
        note = f"There is no topic {topic} at {cluster.connection}: only its archive is read."
        return Pinned(topic, alone.contents, archived=alone.archived, notes=(note, *alone.notes))
    places = [Place(topic, partition) for partition in range(count)]
    # In this order: what retention has deleted by now may be in the archive by now, and the end
    # of the log is not before that of the archive.
    starts = cluster.earliest(places)
    contents = None if folder is None else Contents(folder)
    if contents is not None:
        _check_same(cluster, topic, contents)
    ends = cluster.latest(places, committed=True)
    return combine(
        topic,
        {place.partition: (starts[place], ends[place]) for place in places},
        contents.ranges if contents is not None else {},
        contents,
    )


def combine(topic: str, logs: Ranges, archived: Ranges, contents: Contents | None = None) -> Pinned:
    """Share out the offsets: archived ones to the archive, the others to the broker."""
    before: dict[int, tuple[int, int]] = {}
    after: dict[int, tuple[int, int]] = {}
    notes = _lost_then(contents) if contents is not None else []
    for partition, (log_start, log_end) in logs.items():
        place = Place(topic, partition)
        # Nothing archived is as if the archive were to begin where the log does.
        first, end = archived.get(partition, (log_start, log_start))
        if log_start < first:
            before[partition] = (log_start, min(first, log_end))
        if end < log_start:
            notes.append(
                f"Offsets {end} to {log_start - 1} of {place} are neither in the archive nor at "
                "the broker any more: retention or a deletion came first."
            )
        elif log_end < end:
            notes.append(
                f"{place} ends at offset {log_end} at the broker, before its archive does ({end}): "
                "brokers have lost its end."
            )
        if max(end, log_start) < log_end:
            after[partition] = (max(end, log_start), log_end)
    filled = {partition: each for partition, each in before.items() if each[0] < each[1]}
    return Pinned(topic, contents, filled, dict(archived), after, tuple(notes))


def _lost_then(contents: Contents) -> list[str]:
    return [
        f"Offsets {first} to {end - 1} of {Place(contents.topic, partition)} are not in the "
        f"archive {contents.folder}: they were lost before it could have them."
        for partition, gaps in contents.gaps.items()
        for first, end in gaps
    ]


def _check_same(cluster: "Cluster", topic: str, contents: Contents) -> None:
    """The offsets of a topic that was made anew have nothing to do with the archived ones."""
    cluster_id = cluster.cluster_id()
    if None not in (contents.cluster_id, cluster_id) and contents.cluster_id != cluster_id:
        raise AskingError(
            f"{contents.folder} is the archive of {topic} on the cluster {contents.cluster_id}, "
            f"and {cluster.connection} is the cluster {cluster_id}: check --servers, or ask the "
            f"archive alone with FROM `{contents.folder}`."
        )
    found = cluster.topic_ids([topic]).get(topic)
    if found is not None and contents.topic_id not in (None, str(found)):
        raise AskingError(
            f"The topic {topic} was deleted and made again since {contents.folder} was written, "
            "so that their offsets have nothing in common: leave --archive out to ask the new "
            f"topic, or ask the archive alone with FROM `{contents.folder}`."
        )
