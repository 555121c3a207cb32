"""Which topics the expressions of a group stand for, and when to look again."""

from collections.abc import Iterable
from typing import Final

from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.runtime.turn import Turn
from barnabas.coordinator.topic_regex import compile_topic_regex
from barnabas.model.errors import KafkaError
from barnabas.model.topics import INTERNAL_TOPICS
from barnabas.wire.stored import ConsumerGroupRegex, ConsumerGroupRegexValue, Stored

REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""So that a stream of new topics does not have a group balanced for each (Kafka's number)."""
MATCHES_AT_ONCE: Final = 10_000
"""Names that expressions are held against before others get their turn: some 30 ms. (To read an
expression costs about as much as a name for each of its characters.) Every member may bring one of
its own, and there may be any number of topics."""
NO_VERSION: Final = 0
"""Kafka writes the number of its metadata image here, and looks again when it has a later one."""


def wants_refresh(group: ConsumerGroup, now_ms: int, topic_changes: int, interval_ms: int) -> bool:
    """Whether the expressions should be resolved (again) now. Asked at every heartbeat."""
    if not group.regex_users or group.regexes_due:
        return False
    resolved_at_ms = group.regexes_resolved_at_ms
    if resolved_at_ms is None:
        return True
    if group.regexes and now_ms <= resolved_at_ms + REFRESH_INTERVAL_MS_MIN:
        return False
    return (
        len(group.regexes) != len(group.regex_users)
        or group.regexes_resolved_for < topic_changes
        or now_ms > resolved_at_ms + interval_ms
    )


def resolve(turn: Turn[Stored], group: ConsumerGroup, topic_changes: int) -> bool:
    """Resolve as many expressions as may be at once, write those that stand for other topics than
    before, and note on the group why it is to be balanced. Whether none is left."""
    left = group.regexes_left
    if not left:
        group.regexes_resolved_for = topic_changes
        left += sorted(group.regex_users, reverse=True)
    names = turn.image.topics.keys() - INTERNAL_TOPICS
    matches = 0
    while left and matches < MATCHES_AT_ONCE:
        expression = left.pop()
        if expression in group.regex_users:  # Its last user may have gone meanwhile.
            _resolve_one(turn, group, expression, names)
            matches += len(names) + len(expression)
    if left:
        return False
    group.regexes_due = False
    group.regexes_resolved_at_ms = turn.monotonic_ms
    return True


def _resolve_one(
    turn: Turn[Stored], group: ConsumerGroup, expression: str, names: Iterable[str]
) -> None:
    topics = _matching(expression, names)
    old = group.regexes.get(expression)
    if old is not None and old.topics == topics:
        return
    if topics != (old.topics if old else ()):
        group.regexes_because = f"topics came or went that match {expression}"
    value = ConsumerGroupRegexValue(topics=topics, version=NO_VERSION, timestamp=turn.now_ms)
    turn.write(ConsumerGroupRegex(group.group_id, expression, value))


def _matching(expression: str, names: Iterable[str]) -> tuple[str, ...]:
    """Members' expressions were checked as they came; one that was stored by another broker and
    is not understood here stands for nothing."""
    try:
        regex = compile_topic_regex(expression)
    except KafkaError:
        return ()
    return tuple(sorted(regex.matching(names)))
