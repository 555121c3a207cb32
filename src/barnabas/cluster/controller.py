"""What the controller decides when brokers come and go: pure steps from an image to the next."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from barnabas.cluster import layout
from barnabas.cluster.changes import Decision, R, Write
from barnabas.cluster.elections import begun_anew, elect, prefer_first, without
from barnabas.cluster.image import NO_LEADER, Image, PartitionState, Topic
from barnabas.cluster.moves import completed
from barnabas.cluster.state_writes import States, decision_on, stored_state
from barnabas.model.errors import ErrorCode
from barnabas.model.stops import Stop
from barnabas.ports.coordination import Check

BALANCED_AT_ONCE: Final = 1000
"""Partitions that go back to their preferred leaders at once, as in Kafka."""


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """What became of one partition whose leader was to be elected."""

    topic: str
    partition: int
    code: ErrorCode = ErrorCode.none
    message: str | None = None


def decide_elections(
    image: Image, topics: Iterable[str] | None, controller_epoch: int
) -> Decision[None]:
    """New leaders and in-sync replicas where brokers came, went or are leaving; and where replicas
    are exchanged, and the new ones are in sync, the end of the old ones.

    Of each partition one step: there may be another to decide after it. `topics`: look only at
    these; None: at all.
    """
    names = image.topics if topics is None else [name for name in topics if name in image.topics]
    leaving = _leaving(image)
    staying = image.brokers.keys() - leaving
    states: States = {}
    for name in names:
        topic = image.topics[name]
        for number, state in enumerate(topic.partitions):
            after = elect(
                state,
                image.brokers,
                unclean=topic.config.unclean_leader_election_enable,
                min_isr=topic.config.min_insync_replicas,
                leaving=leaving,
            )
            if after is None and state.is_moving:
                after = completed(state, staying)
            if after is not None:
                states.setdefault(name, {})[number] = after
    return decision_on([], image, states, controller_epoch)


def with_elections(decision: Decision[R], before: Image, controller_epoch: int) -> Decision[R]:
    """Topics under other settings may need other leaders, or have nobody eligible any more. Both
    is stored at once: nobody may act by the new settings and count on the old states."""
    changed = [
        name
        for name, topic in decision.image.topics.items()
        if name in before.topics and before.topics[name].config != topic.config
    ]
    elected = decide_elections(decision.image, changed, controller_epoch)
    return Decision(decision.results, elected.image, elected.writes + decision.writes)


def decide_balance(image: Image, controller_epoch: int) -> Decision[None]:
    """Leadership goes back to first replicas, so that each broker has its share again."""
    states: States = {}
    found = 0
    leaving = _leaving(image)
    for name, topic in image.topics.items():
        for number, state in enumerate(topic.partitions):
            after = _preferred(image, topic, state, leaving)
            if after is not None and found < BALANCED_AT_ONCE:
                states.setdefault(name, {})[number] = after
                found += 1
    return decision_on([], image, states, controller_epoch)


def decide_elect_leaders(
    image: Image,
    wanted: Sequence[tuple[str, int]] | None,
    controller_epoch: int,
    *,
    unclean: bool,
) -> Decision[ElectionResult]:
    """ElectLeaders: preferred leaders, or for partitions without any a leader that may lack
    records. `wanted` None: all partitions, and only those are told of that needed it."""
    everything = wanted is None
    if wanted is None:
        wanted = [(t.name, number) for t in image.topics.values() for number in _numbers(t)]
    states: States = {}
    results: list[ElectionResult] = []
    choose = _uncleanly if unclean else _preferably
    leaving = _leaving(image)
    for name, number in dict.fromkeys(wanted):
        topic = image.topics.get(name)
        if topic is None or number not in _numbers(topic):
            unknown = f"No such topic as {name}" if topic is None else "No such partition."
            results.append(
                ElectionResult(name, number, ErrorCode.unknown_topic_or_partition, unknown)
            )
            continue
        after, code = choose(image, topic, topic.partitions[number], leaving)
        if after is not None:
            states.setdefault(name, {})[number] = after
        if not (everything and code is ErrorCode.election_not_needed):
            results.append(ElectionResult(name, number, code, _MESSAGES.get(code)))
    return decision_on(results, image, states, controller_epoch)


def decide_restart(
    topics: Iterable[Topic], broker: int, controller_epoch: int, stop: Stop
) -> list[Write]:
    """What a broker writes before it takes part again.

    Where its logs may lack what they had, it counts as in sync nowhere, unless nobody else does.
    Otherwise it begins anew what it still leads, so that nothing its former life had sent can come
    late; after a clean stop, nothing of the kind is under way where it is alone.
    """

    def step(topic: Topic, state: PartitionState) -> PartitionState | None:
        if stop is Stop.LOSSY:
            return without(state, broker, topic.config.min_insync_replicas)
        if stop is Stop.CLEAN and len(state.replicas) == 1:
            return None
        return begun_anew(state, broker)

    writes = []
    for topic in topics:
        for number, state in enumerate(topic.partitions):
            after = step(topic, state)
            if after is not None:
                stored = stored_state(topic, number, state, after, controller_epoch)
                still_there = Check(layout.topic_id_path(topic.id), 0)
                writes.append(Write([still_there, stored], topic=topic.name, partitions=(number,)))
    return writes


def could_hand_over(image: Image, broker: int) -> bool:
    """Whether it leads something that another broker could lead."""
    staying = {each.id for each in image.brokers.values() if not each.leaving} - {broker}
    return any(
        state.leader == broker and not staying.isdisjoint(state.isr)
        for topic in image.topics.values()
        for state in topic.partitions
    )


def _preferably(
    image: Image, topic: Topic, state: PartitionState, leaving: frozenset[int]
) -> tuple[PartitionState | None, ErrorCode]:
    if state.leader == state.replicas[0]:
        return None, ErrorCode.election_not_needed
    after = _preferred(image, topic, state, leaving)
    if after is None:
        return None, ErrorCode.preferred_leader_not_available
    return after, ErrorCode.none


def _uncleanly(
    image: Image, topic: Topic, state: PartitionState, leaving: frozenset[int]
) -> tuple[PartitionState | None, ErrorCode]:
    if state.leader != NO_LEADER:
        return None, ErrorCode.election_not_needed
    # Who asks for it, and has nobody else there, gets one that has lost everything.
    for known in (state, replace(state, emptied=())):
        after = elect(
            known,
            image.brokers,
            unclean=True,
            min_isr=topic.config.min_insync_replicas,
            leaving=leaving,
        )
        if after is not None:
            return after, ErrorCode.none
    return None, ErrorCode.eligible_leaders_not_available


_MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.election_not_needed: "Leader election not needed for topic partition.",
    ErrorCode.preferred_leader_not_available: "The preferred leader was not available.",
    ErrorCode.eligible_leaders_not_available: "Eligible topic partition leaders are not available.",
}


def _preferred(
    image: Image, topic: Topic, state: PartitionState, leaving: frozenset[int]
) -> PartitionState | None:
    min_isr = topic.config.min_insync_replicas
    return prefer_first(state, image.brokers, min_isr=min_isr, leaving=leaving)


def _leaving(image: Image) -> frozenset[int]:
    return frozenset(each.id for each in image.brokers.values() if each.leaving)


def _numbers(topic: Topic) -> range:
    return range(len(topic.partitions))
