"""Whatever members, topics, time and crashes do: the promises of a consumer group hold."""

import re

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.coordinator.consumer.consumer import Consumer
from tests.coordinator.consumer.stage import Stage

from barnabas.coordinator.group.consumer.group import ConsumerGroup

TOPICS = ("apple", "apricot", "berry", "cherry")
REGEXES = ("ap.*", ".*rry", "none", ".*")
SUBSCRIPTIONS = st.one_of(
    st.tuples(st.lists(st.sampled_from(TOPICS), max_size=3).map(tuple), st.just("")),
    st.tuples(st.just(()), st.sampled_from(REGEXES)),
    st.tuples(st.lists(st.sampled_from(TOPICS), max_size=2).map(tuple), st.sampled_from(REGEXES)),
)
CONSUMERS_MAX = 6
PICK = st.integers(min_value=0, max_value=CONSUMERS_MAX - 1)
INSTANCES = st.sampled_from((None, None, "one", "two"))


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group, its members as clients that hold partitions, and a shard that may be dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.consumers: list[Consumer] = []
        self.joined = 0
        self.epochs = (0, 0)

    @property
    def group(self) -> ConsumerGroup | None:
        return self.stage.groups.get("g")

    def pick(self, number: int) -> Consumer:
        return self.consumers[number % len(self.consumers)]

    # --- topics ----------------------------------------------------------------------------------

    @initialize(count=st.integers(1, 6))
    def begins_with_a_topic(self, count: int) -> None:
        self.stage.topic("apple", count)

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def topic_comes_or_grows(self, name: str, more: int) -> None:
        old = self.stage.image.topics.get(name)
        self.stage.topic(name, more + (len(old.partitions) if old else 0))

    @precondition(lambda self: self.stage.image.topics)
    @rule(number=st.integers(0, 3))
    def topic_goes(self, number: int) -> None:
        names = sorted(self.stage.image.topics)
        self.stage.delete(names[number % len(names)])

    # --- members ---------------------------------------------------------------------------------

    @precondition(lambda self: len(self.consumers) < CONSUMERS_MAX)
    @rule(subscription=SUBSCRIPTIONS, instance_id=INSTANCES, slow=st.booleans())
    def consumer_starts(
        self, subscription: tuple[tuple[str, ...], str], instance_id: str | None, slow: bool
    ) -> None:
        """Also with a static id that another uses, or that another has left behind. A slow one
        goes on using what it shall give up, and says so in its heartbeats, until it revokes."""
        self.joined += 1
        consumer = Consumer(self.stage, f"m{self.joined}", *subscription, instance_id)
        consumer.revokes_at_once = not slow
        self.consumers.append(consumer)
        consumer.beat()

    @precondition(lambda self: self.consumers)
    @rule(number=PICK, lost=st.booleans())
    def consumer_beats(self, number: int, lost: bool) -> None:
        self.pick(number).beat(answer_is_lost=lost and number % 2 == 0)

    @precondition(lambda self: self.consumers)
    @rule()
    def everybody_beats(self) -> None:
        for consumer in self.consumers:
            consumer.beat()

    @precondition(lambda self: self.consumers)
    @rule(number=PICK)
    def slow_consumer_revokes(self, number: int) -> None:
        self.pick(number).revoke()

    @precondition(lambda self: self.consumers)
    @rule(number=PICK, subscription=SUBSCRIPTIONS)
    def consumer_subscribes_anew(
        self, number: int, subscription: tuple[tuple[str, ...], str]
    ) -> None:
        consumer = self.pick(number)
        consumer.names, consumer.regex = subscription
        consumer.must_say_all = True

    @precondition(lambda self: self.consumers)
    @rule(number=PICK)
    def consumer_leaves(self, number: int) -> None:
        consumer = self.pick(number)
        self.consumers.remove(consumer)
        consumer.leave()

    @precondition(lambda self: self.consumers)
    @rule(number=PICK)
    def consumer_dies_without_a_word(self, number: int) -> None:
        self.consumers.remove(self.pick(number))

    @precondition(lambda self: any(each.instance_id for each in self.consumers))
    @rule(number=PICK, same_id=st.booleans())
    def static_consumer_restarts(self, number: int, same_id: bool) -> None:
        static = [each for each in self.consumers if each.instance_id]
        consumer = static[number % len(static)]
        consumer.leave(-2)
        if not same_id:
            self.joined += 1
            consumer.member_id = f"m{self.joined}"
        consumer.beat()

    # --- time and crashes ------------------------------------------------------------------------

    @rule(
        ms=st.sampled_from((0, 1, 5_000, 11_000, 29_000, 46_000)),
        jump_ms=st.sampled_from((0, 0, 10**9, -(10**9))),
    )
    def time_passes(self, ms: int, jump_ms: int) -> None:
        """And the wall clock goes as it likes."""
        self.stage.wall_ms += jump_ms
        self.stage.after(ms)

    @rule()
    def shard_is_dropped_and_loaded(self) -> None:
        """Reloading changes nothing that can be seen, and no index."""
        before = self.stage.observable()
        indexes = self._indexes()
        self.stage.reload()
        assert self.stage.observable() == before
        assert self._indexes() == indexes

    def _indexes(self) -> object:
        group = self.group
        if group is None:
            return None
        counts = (group.topics, group.regex_users, group.assignor_users, group.static_ids)
        owners = {
            (topic_id, number): group.owner(topic_id, number)
            for topic in self.stage.image.topics.values()
            for topic_id, number in ((topic.id_bytes, n) for n in range(len(topic.partitions)))
        }
        return [dict(each) for each in counts], owners, dict(group.targets)

    # --- promises --------------------------------------------------------------------------------

    @invariant()
    def no_partition_is_owned_by_two_live_members_at_once(self) -> None:
        holders: dict[tuple[bytes, int], str] = {}
        for consumer in self.consumers:
            if not consumer.is_in:
                continue
            for partition in consumer.holds:
                assert partition not in holders, (partition, holders, consumer.member_id)
                holders[partition] = consumer.member_id

    @invariant()
    def a_member_is_never_ahead_of_its_group(self) -> None:
        if self.group is not None:
            assert self.group.assignment_epoch <= self.group.epoch
            for member in self.group.members.values():
                assert member.owns.epoch <= self.group.assignment_epoch

    @invariant()
    def epochs_never_go_back(self) -> None:
        if self.group is not None:
            epochs = (self.group.epoch, self.group.assignment_epoch)
            assert epochs[0] >= self.epochs[0]
            assert epochs[1] >= self.epochs[1]
            self.epochs = epochs

    @invariant()
    def nobody_is_assigned_a_topic_it_does_not_subscribe_to(self) -> None:
        for consumer in self.consumers:
            if consumer.is_in and not consumer.must_say_all:
                for topic_id, _ in consumer.assigned:
                    assert self._reads(consumer, self.stage.names[topic_id])

    @invariant()
    def every_partition_has_one_place_in_the_target(self) -> None:
        group = self.group
        if group is None:
            return
        placed = [
            (topic_id, number)
            for target in group.targets.values()
            for topic_id, numbers in target.items()
            for number in numbers
        ]
        assert len(placed) == len(set(placed))
        assert group.targets.keys() <= group.members.keys()
        if group.members and group.epoch == group.assignment_epoch and self._is_up_to_date(group):
            assert set(placed) == self._subscribed_partitions(group)

    def teardown(self) -> None:
        """With no more faults and enough heartbeats every group becomes stable."""
        for consumer in self.consumers:
            consumer.revokes_at_once = True
        for _ in range(16):
            for consumer in self.consumers:
                consumer.beat()
                self.no_partition_is_owned_by_two_live_members_at_once()
            self.stage.after(5_000)
        if self.group is None:
            return
        assert self.group.state == ("Stable" if self.consumers_in() else "Empty")
        for consumer in self.consumers_in():
            member_id = consumer.member_id
            target = {(t, n) for t, ns in self.group.target(member_id).items() for n in ns}
            assert consumer.holds == consumer.assigned == target
        held = {each for consumer in self.consumers_in() for each in consumer.holds}
        assert held == {
            (topic.id_bytes, number)
            for topic in self.stage.image.topics.values()
            if any(self._reads(each, topic.name) for each in self.consumers_in())
            for number in range(len(topic.partitions))
        }
        self.shard_is_dropped_and_loaded()

    def consumers_in(self) -> list[Consumer]:
        """Those that became members: of two with one static id one waits for ever."""
        consumers = [each for each in self.consumers if each.is_in]
        waiting = [each for each in self.consumers if not each.is_in]
        taken = {each.instance_id for each in consumers}
        assert all(each.instance_id in taken for each in waiting)
        return consumers

    def _reads(self, consumer: Consumer, name: str) -> bool:
        matched = bool(consumer.regex) and re.fullmatch(consumer.regex or "", name) is not None
        return name in consumer.names or matched

    def _is_up_to_date(self, group: ConsumerGroup) -> bool:
        return not group.metadata_is_stale and group.regexes.keys() == group.regex_users.keys()

    def _subscribed_partitions(self, group: ConsumerGroup) -> set[tuple[bytes, int]]:
        topics = (self.stage.image.topics.get(name) for name in group.topics)
        return {
            (topic.id_bytes, number)
            for topic in topics
            if topic is not None
            for number in range(len(topic.partitions))
        }


ConsumerGroupMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
