"""Committed offsets beside a plain dict, through any history and read back from a short log."""

import uuid

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.coordinator.offsets.test_offsets import Desk, Members, at

from barnabas.cluster.image import PartitionState, Topic
from barnabas.config.group_settings import GroupSettings
from barnabas.config.topic_config import TopicConfig
from barnabas.coordinator.group.offsets.offsets import Offsets
from barnabas.wire.stored import OffsetCommit

RETENTION_MS = 100_000
GROUPS = ("g", "h")
TOPICS = {
    name: Topic(
        name,
        uuid.uuid5(uuid.NAMESPACE_URL, name),
        (PartitionState(1, 0, (1,), (1,)),),
        {},
        TopicConfig(),
    )
    for name in ("t", "u")
}

groups = st.sampled_from(GROUPS)
topics = st.sampled_from(sorted(TOPICS))
partitions = st.integers(0, 2)


class OffsetsBesideADict(RuleBasedStateMachine):
    """The model: (group, topic, partition) to offset and time of the commit."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(GroupSettings(offsets_retention_ms=RETENTION_MS))
        self.members = {name: Members(name) for name in GROUPS}
        self.model: dict[tuple[str, str, int], tuple[int, int]] = {}

    @rule(group=groups, topic=topics, partition=partitions, offset=st.integers(0, 100))
    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        part = at(topic, partition, offset, topic_id=TOPICS[topic].id_bytes)
        self.desk.commit(part, group=self.members[group])
        self.model[group, topic, partition] = (offset, self.desk.now_ms)

    @rule(group=groups, topic=topics, reads=st.booleans())
    def subscribe(self, group: str, topic: str, reads: bool) -> None:
        (self.members[group].topics.add if reads else self.members[group].topics.discard)(topic)

    @rule(group=groups, topic=topics, partition=partitions)
    def delete(self, group: str, topic: str, partition: int) -> None:
        members = self.members[group]
        self.desk.offsets.delete(self.desk.turn(), members, [(topic, partition)])
        if topic not in members.topics:
            self.model.pop((group, topic, partition), None)

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        self.desk.offsets.delete_all(self.desk.turn(), group)
        self.model = {key: value for key, value in self.model.items() if key[0] != group}

    @rule(topic=topics)
    def delete_topic(self, topic: str) -> None:
        self.desk.offsets.topics_deleted(self.desk.turn(), [TOPICS[topic]])
        self.model = {key: value for key, value in self.model.items() if key[1] != topic}

    @rule(duration_ms=st.sampled_from([1, 1_000, RETENTION_MS // 2, RETENTION_MS]))
    def time_passes(self, duration_ms: int) -> None:
        self.desk.pass_ms(duration_ms)

    @rule(group=groups)
    def expire(self, group: str) -> None:
        nothing_left = self.desk.offsets.expire(self.desk.turn(), self.members[group])
        self.model = {
            key: (offset, at_ms)
            for key, (offset, at_ms) in self.model.items()
            if key[0] != group
            or key[1] in self.members[group].topics
            or self.desk.now_ms - at_ms < RETENTION_MS
        }
        assert nothing_left == (not any(key[0] == group for key in self.model))

    @rule()
    def restart(self) -> None:
        """Only the last record of each key is left in a compacted log, maybe not even that."""
        last: dict[tuple[str, str, int], OffsetCommit] = {}
        for record in self.desk.records:
            key = (record.group, record.topic, record.partition)
            last.pop(key, None)
            last[key] = record
        self.desk.offsets = Offsets(lambda: self.desk.settings)
        for record in last.values():
            self.desk.offsets.apply(record)

    @invariant()
    def is_as_the_model(self) -> None:
        offsets = self.desk.offsets
        found = {
            (group, *key): value.offset
            for group in GROUPS
            for key, value in offsets.all_of(group).items()
        }
        assert found == {key: offset for key, (offset, _) in self.model.items()}
        assert set(offsets.groups()) == {key[0] for key in self.model}
        for group, topic, partition in self.model:
            fetched = offsets.fetch(group, topic, partition)
            assert fetched == offsets.all_of(group)[topic, partition]


TestOffsetsBesideADict = OffsetsBesideADict.TestCase
TestOffsetsBesideADict.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
