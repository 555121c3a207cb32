"""What has happened between two looks at a cluster."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.operating.health import has_leader, is_short
from barnabas.operating.snapshot import (
    NOBODY,
    BrokerFacts,
    PartitionFacts,
    Place,
    Snapshot,
    TopicFacts,
)


@dataclass(frozen=True, slots=True)
class Event:
    """A kind for programs, a sentence for people, and the facts of it."""

    kind: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    topic: str | None = None
    """The topic that it is about, if it is about one."""


def changes(before: Snapshot, after: Snapshot, known: Collection[int]) -> list[Event]:
    """What happened, in the order in which one thing leads to another.

    `known` are all brokers that were ever seen: one of those that registers is back, any other is
    new.
    """
    return [
        *_brokers(before, after, known),
        *_controller(before, after),
        *_topics(before, after),
    ]


def present(snapshot: Snapshot) -> list[Event]:
    """How things are, for whoever looks once."""
    found = [_broker("broker-present", "is there", each) for each in _sorted(snapshot.brokers)]
    found += [_dead(number) for number in snapshot.dead]
    found += _controller_is(snapshot)
    for name, topic in sorted(snapshot.topics.items()):
        found.append(_topic("topic-present", "is there", name, topic))
    for place, facts in snapshot.partitions():
        if not has_leader(facts, snapshot):
            found.append(_offline(place, facts))
        if is_short(facts, snapshot, place):
            found.append(_isr("isr-short", "lacks", place, facts, set(facts.replicas)))
        if place in snapshot.moving:
            found.append(_moves(place, snapshot))
    return found


# Brokers and the controller.


def _brokers(before: Snapshot, after: Snapshot, known: Collection[int]) -> Iterator[Event]:
    for number in sorted(before.brokers.keys() - after.brokers.keys()):
        yield _dead(number)
    for each in _sorted(after.brokers):
        if each.id not in before.brokers:
            back = each.id in known
            yield _broker(
                "broker-back" if back else "broker-joined", "is back" if back else "joined", each
            )
        elif before.brokers[each.id].address != each.address:
            yield _broker("broker-address", "has another address", each)


def _sorted(brokers: Mapping[int, BrokerFacts]) -> list[BrokerFacts]:
    return [brokers[number] for number in sorted(brokers)]


def _broker(kind: str, what: str, broker: BrokerFacts) -> Event:
    where = f" on rack {broker.rack}" if broker.rack is not None else ""
    return Event(
        kind,
        f"broker {broker.id} {what} at {broker.address}{where}",
        {"broker": broker.id, "address": broker.address, "rack": broker.rack},
    )


def _dead(number: int) -> Event:
    return Event("broker-dead", f"broker {number} is dead", {"broker": number})


def _controller(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    if before.controller == after.controller:
        return
    if after.controller == NOBODY:
        yield Event("controller-gone", "nobody is the controller", {"from": before.controller})
        return
    yield Event(
        "controller-moved",
        f"broker {after.controller} is the controller"
        + ("" if before.controller == NOBODY else f", after broker {before.controller}"),
        {"from": _or_none(before.controller), "to": after.controller},
    )


def _controller_is(snapshot: Snapshot) -> list[Event]:
    if snapshot.controller == NOBODY:
        return [Event("controller-gone", "nobody is the controller", {"from": None})]
    text = f"broker {snapshot.controller} is the controller"
    return [Event("controller-present", text, {"broker": snapshot.controller})]


# Topics.


def _topics(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    for name, topic in sorted(before.topics.items()):
        there = after.topics.get(name)
        if there is None or there.id != topic.id:
            yield _topic("topic-deleted", "was deleted", name, topic)
    for name, topic in sorted(after.topics.items()):
        was = before.topics.get(name)
        if was is None or was.id != topic.id:
            yield _topic("topic-created", "was created", name, topic)
            continue
        more = len(topic.partitions) - len(was.partitions)
        if more > 0:
            yield _topic("partitions-added", f"has {more} more", name, topic)
        for number, facts in sorted(topic.partitions.items()):
            earlier = was.partitions.get(number)
            if earlier is not None:
                yield from _partition(Place(name, number), before, earlier, after, facts)


def _topic(kind: str, what: str, name: str, topic: TopicFacts) -> Event:
    count = len(topic.partitions)
    return Event(
        kind,
        f"topic {name} {what}, with {count} partition{'' if count == 1 else 's'}",
        {"topic": name, "topic_id": topic.id, "partitions": count},
        name,
    )


def _partition(
    place: Place, before: Snapshot, was: PartitionFacts, after: Snapshot, facts: PartitionFacts
) -> Iterator[Event]:
    if facts.leader_epoch < was.leader_epoch:
        # Told by a broker that has not heard yet what another has told us.
        return
    yield from _leader(place, has_leader(was, before), was, has_leader(facts, after), facts)
    if set(was.isr) - set(facts.isr):
        yield _isr("isr-shrunk", "shrank by", place, facts, set(was.isr))
    if set(facts.isr) - set(was.isr):
        yield _isr("isr-grown", "grew by", place, facts, set(was.isr))
    if place in after.moving and place not in before.moving:
        yield _moves(place, after)
    if was.replicas != facts.replicas and place not in after.moving:
        yield Event(
            "replicas-moved",
            f"{place} is on {_numbers(facts.replicas)}, and was on {_numbers(was.replicas)}",
            {**_of(place), "from": list(was.replicas), "to": list(facts.replicas)},
            place.topic,
        )


def _leader(
    place: Place, was_led: bool, was: PartitionFacts, is_led: bool, facts: PartitionFacts
) -> Iterator[Event]:
    if was_led and not is_led:
        yield _offline(place, facts)
        return
    if is_led and not was_led:
        yield Event(
            "partition-online",
            f"{place} is led again, by broker {facts.leader} (epoch {facts.leader_epoch})",
            {**_of(place), "leader": facts.leader, "leader_epoch": facts.leader_epoch},
            place.topic,
        )
        return
    elections = facts.leader_epoch - was.leader_epoch
    if is_led and elections > 0:
        # An epoch is given for each election, also for those between our looks.
        missed = elections - 1
        text = (
            f"{place} is led by broker {facts.leader}, after broker {was.leader}"
            if facts.leader != was.leader
            else f"{place} is led by broker {facts.leader} anew"
        )
        more = f", {missed} more election{'' if missed == 1 else 's'} before" if missed else ""
        yield Event(
            "leader-moved",
            f"{text} (epoch {facts.leader_epoch}{more})",
            {
                **_of(place),
                "from": _or_none(was.leader),
                "to": facts.leader,
                "leader_epoch": facts.leader_epoch,
                "missed": missed,
            },
            place.topic,
        )


def _offline(place: Place, facts: PartitionFacts) -> Event:
    return Event(
        "partition-offline",
        f"{place} is led by nobody (in sync: {_numbers(facts.isr)})",
        {**_of(place), "isr": sorted(facts.isr)},
        place.topic,
    )


def _isr(kind: str, what: str, place: Place, facts: PartitionFacts, was: set[int]) -> Event:
    now = set(facts.isr)
    other = sorted(now - was) if kind == "isr-grown" else sorted(was - now)
    return Event(
        kind,
        f"the ISR of {place} {what} {_numbers(other)}: {_numbers(sorted(facts.isr))} of "
        f"{_numbers(facts.replicas)}",
        {**_of(place), "isr": sorted(facts.isr), "changed": other},
        place.topic,
    )


def _moves(place: Place, snapshot: Snapshot) -> Event:
    moving = snapshot.moving[place]
    return Event(
        "replicas-moving",
        f"{place} is on its way to {_numbers(moving.adding)}, away from "
        f"{_numbers(moving.removing)}",
        {**_of(place), "adding": list(moving.adding), "removing": list(moving.removing)},
        place.topic,
    )


def _of(place: Place) -> dict[str, Any]:
    return {"topic": place.topic, "partition": place.number}


def _or_none(number: int) -> int | None:
    return None if number == NOBODY else number


def _numbers(brokers: Collection[int]) -> str:
    return ",".join(map(str, brokers)) or "nobody"
