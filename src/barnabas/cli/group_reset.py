"""What `group reset` does: plan where a group goes on in each partition, show it, and do it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self

from barnabas.cli.client import REQUEST_S, admin_api, existing_topics, no_such_topic, sentence
from barnabas.cli.group_brokers import GroupBrokers
from barnabas.cli.group_facts import Group, gather, named_members, shown
from barnabas.cli.group_places import (
    Extent,
    Place,
    committed_offsets,
    existing,
    extents,
    offsets_at,
)
from barnabas.cli.group_progress import Progress
from barnabas.cli.group_show import no_such_group
from barnabas.cli.moments import parse_moment
from barnabas.cli.output import note, print_json, print_table
from barnabas.model.errors import BarnabasError

Kind = Literal["offset", "time", "earliest", "latest", "shift", "current"]

_COMMITTED_AT_ONCE: Final = 1000
"""Partitions in one commit: their records must fit into one batch of the group's log."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to go: a kind, and its number where it has one (an offset, a time in ms, a shift)."""

    kind: Kind
    number: int = 0

    @classmethod
    def of(cls, kind: Kind, given: str | int | None) -> Self | None:
        """From what the command line says; None when it says nothing."""
        if given is None:
            return None
        return cls(kind, parse_moment(given) if isinstance(given, str) else int(given))


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: where the group is, and where it goes. Without `new` it stays."""

    topic: str
    partition: int
    old: int | None
    new: int | None
    note: str | None


def reset_group(
    client: Any,
    name: str,
    topics: list[str] | None,
    target: Target,
    *,
    execute: bool,
    as_json: bool,
) -> None:
    """Show the plan, and with `execute` commit it. May raise KafkaException."""
    group = _described(client, name)
    if execute:
        _check_empty(name, group)
    committed = committed_offsets(client, name) if group is not None else {}
    places = _chosen(client, name, topics, committed)
    moves = plan(client, places, committed, target)
    if execute:
        _commit(client, name, moves)
    if as_json:
        print_json({"group": name, "executed": execute, "partitions": list(map(asdict, moves))})
    else:
        print_table(
            ("topic", "partition", "from", "to", "note"),
            [(each.topic, each.partition, each.old, each.new, each.note or "") for each in moves],
        )
    if execute:
        return
    note("Nothing was changed: add --execute to do it.")
    if group is None:
        note(f"There is no group {shown(name)} yet: --execute would make it.")
    elif group.members:
        note(str(_not_empty(name, group)))


def _described(client: Any, name: str) -> Group | None:
    """The group; None when there is none, or one that only ever committed and has gone."""
    with GroupBrokers(client) as brokers:
        known = brokers.groups().get(name)
        if known is None:
            return None
        found = gather([known]).get(name)
    if found is None:
        raise BarnabasError(
            f"{shown(name)} is a {known.type.lower()} group: only the offsets of classic and "
            "consumer groups can be reset."
        )
    return found


def _check_empty(name: str, group: Group | None) -> None:
    if group is not None and group.members:
        raise _not_empty(name, group)


def _not_empty(name: str, group: Group | None) -> BarnabasError:
    who = f" ({named_members(group)})" if group is not None and group.members else ""
    return BarnabasError(
        f"{shown(name)} has members{who}, and its offsets can only be reset while it has none: "
        "stop its consumers first."
    )


def _chosen(
    client: Any, name: str, topics: list[str] | None, committed: Mapping[Place, int]
) -> list[Place]:
    """The partitions that are meant; BarnabasError when there is none, or an unknown one."""
    if topics is None:
        if not committed:
            raise no_such_group(name)
        found = existing(client, committed)
        for topic in sorted({topic for topic, _ in committed} - {topic for topic, _ in found}):
            note(f"Left out: the topic {topic}, which does not exist any more.")
        return found
    known = existing_topics(client)
    chosen: set[Place] = set()
    for text in topics:
        topic, numbers = parse_topic(text)
        if topic not in known:
            raise no_such_topic(topic)
        there = known[topic].partitions
        for number in numbers or ():
            if number not in there:
                raise BarnabasError(
                    f"{topic} has no partition {number}: it has {len(there)}, counted from 0."
                )
        chosen |= {(topic, number) for number in (numbers or there)}
    return sorted(chosen)


def parse_topic(text: str) -> tuple[str, list[int] | None]:
    """`orders` or `orders:0,2`; None stands for every partition."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    parts = numbers.split(",")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise BarnabasError(f"--topic {text}: write partitions as orders:0,2.")
    return topic, sorted({int(part) for part in parts})


def plan(
    client: Any, places: list[Place], committed: Mapping[Place, int], target: Target
) -> list[Move]:
    """Where each partition goes, never outside of its log. May raise KafkaException."""
    logs = extents(client, places)
    times: dict[Place, int] = {}
    if target.kind == "time":
        spec = admin_api().OffsetSpec.for_timestamp(target.number)
        times = offsets_at(client, list(logs), spec)
    return [
        _move(place, committed.get(place), logs.get(place), target, times.get(place, -1))
        for place in places
    ]


def _move(place: Place, old: int | None, log: Extent | None, target: Target, at_time: int) -> Move:
    if log is None:
        return Move(*place, old, None, "it has no leader now: left as it is")
    match target.kind:
        case "earliest":
            wanted, why = log.start, None
        case "latest":
            wanted, why = log.end, None
        case "offset":
            wanted, why = target.number, None
        case "time" if at_time < 0:
            wanted, why = log.end, "no record is as new: the end"
        case "time":
            wanted, why = at_time, None
        case "shift" | "current" if old is None:
            return Move(*place, None, None, "nothing committed yet: left as it is")
        case "shift":
            wanted, why = old + target.number, None
        case "current":
            wanted, why = old, None
    new = min(max(wanted, log.start), log.end)
    if wanted < log.start:
        why = f"{wanted} is before the log's start"
    elif wanted > log.end:
        why = f"{wanted} is beyond the log's end"
    return Move(*place, old, new, why)


def _commit(client: Any, name: str, moves: list[Move]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    wanted = [
        TopicPartition(move.topic, move.partition, move.new)
        for move in moves
        if move.new is not None
    ]
    progress = Progress("partitions", len(wanted))
    for start in range(0, len(wanted), _COMMITTED_AT_ONCE):
        some = wanted[start : start + _COMMITTED_AT_ONCE]
        (answer,) = client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name, some)], request_timeout=REQUEST_S
        ).values()
        _check_committed(name, answer.result(REQUEST_S).topic_partitions)
        progress.advance(len(some))


def _check_committed(name: str, partitions: list[Any]) -> None:
    """What is wrong with one is mostly wrong with all, so the first problem stands for them."""
    from confluent_kafka import KafkaError, KafkaException

    for each in partitions:
        if each.error is None:
            continue
        # A member has joined since we looked: commits from outside are refused from then on.
        if each.error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP):
            raise _not_empty(name, None)
        said = sentence(KafkaException(each.error))
        raise BarnabasError(f"{each.topic} partition {each.partition}: {said}")
