"""From states that were decided to what is stored of them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

from barnabas.cluster import layout
from barnabas.cluster.changes import Decision, R, Write
from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.cluster.topics import topic_data
from barnabas.ports.coordination import SetData

States = dict[str, dict[int, PartitionState]]
"""The next states of some partitions, by topic and number."""

_MOVED_AT_ONCE: Final = 250
"""Partitions of one commit that get other replicas: the topic's node, which tells of all of them,
goes with each such commit, and ZooKeeper takes a megabyte."""


def decision_on(
    results: list[R], image: Image, states: States, controller_epoch: int
) -> Decision[R]:
    """The decision that these states are the next ones."""
    changed: list[Topic] = []
    writes: list[Write] = []
    for name, by_number in states.items():
        topic = image.topics[name]
        staying = {n: s for n, s in by_number.items() if not _is_moved(topic.partitions[n], s)}
        for number, after in staying.items():
            stored = stored_state(topic, number, topic.partitions[number], after, controller_epoch)
            writes.append(Write([stored], topic=name, partitions=(number,)))
        topic = _with_states(topic, staying)
        moved = iter([item for item in by_number.items() if item[0] not in staying])
        while some := dict(islice(moved, _MOVED_AT_ONCE)):
            before, topic = topic, _with_states(topic, some)
            writes.append(_move(before, topic, some, controller_epoch))
        changed.append(topic)
    return Decision(results, image.with_topics(changed) if changed else image, writes)


def stored_state(
    topic: Topic, number: int, before: PartitionState, after: PartitionState, controller_epoch: int
) -> SetData:
    """The write of a state that holds only for the one it was decided on."""
    return SetData(
        layout.state_path(topic.name, number),
        layout.encode_state(after, controller_epoch),
        before.partition_epoch,
    )


def _is_moved(before: PartitionState, after: PartitionState) -> bool:
    return _placed(before) != _placed(after)


def _placed(state: PartitionState) -> tuple[tuple[int, ...], ...]:
    return state.replicas, state.adding, state.removing


def _with_states(topic: Topic, states: Mapping[int, PartitionState]) -> Topic:
    partitions = [states.get(number, state) for number, state in enumerate(topic.partitions)]
    return replace(topic, partitions=tuple(partitions))


def _move(
    before: Topic, after: Topic, states: Mapping[int, PartitionState], controller_epoch: int
) -> Write:
    """The states and the topic's node in one commit: whoever reads either is told the same."""

    def operations() -> Iterator[SetData]:
        for number, state in states.items():
            known = before.partitions[number]
            yield stored_state(before, number, known, state, controller_epoch)
        yield topic_data(after)

    return Write([*operations()], topic=after.name, partitions=tuple(states))
