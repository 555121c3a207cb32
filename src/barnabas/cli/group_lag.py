"""What `group describe` tells of each partition: where the group stands, and how far behind."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from barnabas.cli.group_age import oldest_unread_ms
from barnabas.cli.group_facts import Group, Member
from barnabas.cli.group_places import Extent, Place, committed_offsets, extents
from barnabas.cli.group_progress import Progress


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition of a group; None is what nobody knows."""

    topic: str
    partition: int
    committed: int | None
    start_offset: int | None
    end_offset: int | None
    lag: int | None
    """Records that are there and not read."""
    lag_seconds: float | None
    """How old the oldest of them is."""
    note: str | None
    member_id: str | None
    client_id: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class Described:
    """A group and where it stands."""

    group: Group
    partitions: list[Standing]

    @property
    def lag(self) -> int:
        """Records behind, over all partitions where that is known."""
        return sum(each.lag or 0 for each in self.partitions)

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        group = asdict(self.group)
        for member in group["members"]:
            member["partitions"] = [
                {"topic": topic, "partition": number} for topic, number in member["partitions"]
            ]
        partitions = [asdict(each) for each in self.partitions]
        return group | {"lag": self.lag, "partitions": partitions}


def describe_groups(
    client: Any, bootstrap: str, groups: list[Group], *, ages: bool = True
) -> list[Described]:
    """Where each group stands; without `ages` no record is read. May raise KafkaException."""
    asking = Progress("groups", len(groups))
    committed = {}
    for group in groups:
        committed[group.name] = committed_offsets(client, group.name)
        asking.advance(1)
    owners = {group.name: _owners(group) for group in groups}
    places = {place for group in groups for place in {*committed[group.name], *owners[group.name]}}
    logs = extents(client, places)
    unread = {group.name: _unread(committed[group.name], logs) for group in groups}
    written: dict[str, dict[Place, int | None]] = {}
    if ages:
        reading = Progress("partitions", sum(map(len, unread.values())))
        for group in groups:
            written[group.name] = oldest_unread_ms(bootstrap, unread[group.name], reading.advance)
    return [
        Described(
            group,
            [
                _standing(
                    place,
                    committed[group.name].get(place),
                    logs.get(place),
                    _age_s(place, unread[group.name], written.get(group.name, {})),
                    owners[group.name].get(place),
                )
                for place in sorted({*committed[group.name], *owners[group.name]})
            ],
        )
        for group in groups
    ]


def _owners(group: Group) -> dict[Place, Member]:
    return {place: member for member in group.members for place in member.partitions}


def _unread(committed: Mapping[Place, int], logs: Mapping[Place, Extent]) -> dict[Place, int]:
    """From which offset on there is something to read, where there is."""
    return {
        place: max(offset, logs[place].start)
        for place, offset in committed.items()
        if place in logs and max(offset, logs[place].start) < logs[place].end
    }


def _age_s(
    place: Place, unread: Mapping[Place, int], written: Mapping[Place, int | None]
) -> float | None:
    """Seconds since the oldest unread record was written; 0 when every record was read."""
    if place not in unread:
        return 0.0
    if place not in written:
        return None
    written_ms = written[place]
    if written_ms is None:
        return 0.0
    # Producers write their own clocks into records, and these may be ahead of ours.
    return max(0.0, round(time.time() - written_ms / 1000, 3))


def _standing(
    place: Place,
    committed: int | None,
    log: Extent | None,
    age_s: float | None,
    owner: Member | None,
) -> Standing:
    lag = _lag(committed, log)
    return Standing(
        topic=place[0],
        partition=place[1],
        committed=committed,
        start_offset=log.start if log else None,
        end_offset=log.end if log else None,
        lag=lag,
        lag_seconds=None if lag is None else age_s,
        note=_note(committed, log),
        member_id=owner.id if owner else None,
        client_id=owner.client_id if owner else None,
        host=owner.host if owner else None,
    )


def _lag(committed: int | None, log: Extent | None) -> int | None:
    if committed is None or log is None:
        return None
    # What was deleted unread can not be read any more; the note tells of it.
    return max(0, log.end - max(committed, log.start))


def _note(committed: int | None, log: Extent | None) -> str | None:
    if log is None:
        return "there is no such partition, or it has no leader"
    if committed is None:
        return "nothing committed yet"
    if committed < log.start:
        return f"{log.start - committed} offsets were deleted before they were read"
    if committed > log.end:
        return "committed beyond the end of the log: was the topic created anew?"
    return None
