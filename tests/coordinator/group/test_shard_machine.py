"""Groups of both kinds and their offsets, as one: come, commit, go, change kind, expire, reload."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.coordinator.group.whole_shard import DAY_MS, WholeShard

from barnabas.coordinator.group.asks import (
    Client,
    Commit,
    CommitPartition,
    ConsumerHeartbeat,
    Join,
    Leaver,
    Sync,
)
from barnabas.model.errors import ErrorCode, KafkaError

GROUPS = st.sampled_from(["one", "two"])
TOPICS = st.sampled_from(["t", "u"])
CLIENT = Client(id="c", host="/h")
Place = tuple[str, str, int]


class GroupShardMachine(RuleBasedStateMachine):
    """The model knows what was acknowledged; the shard must neither forget it nor keep more."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = WholeShard()
        for name in ("t", "u"):
            self.stage.create_topic(name)
        self.offsets: dict[Place, int] = {}
        self.days = 0
        """Since there were no offsets, or longer."""
        self.members: dict[str, tuple[str, str, int]] = {}
        """Of each group: kind, member id, generation or epoch."""

    # --- members -------------------------------------------------------------------------------

    @rule(group=GROUPS)
    def join_classic(self, group: str) -> None:
        kind = self.members.get(group, ("", "", 0))[0]
        try:
            joined = self.stage.ask(
                lambda shard, turn, who: shard.classic.join(turn, who, _join(group))
            )
        except KafkaError as error:
            assert error.code is ErrorCode.inconsistent_group_protocol  # noqa: PT017
            assert kind == "consumer", "only live members keep the other protocol out"
            return
        assert kind != "consumer"
        if joined is None:
            # Another member has to join again first: this one gives up.
            self._silence(group)
            return
        ask = Sync(
            group_id=group,
            generation=joined.generation,
            member_id=joined.member_id,
            instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments={each.member_id: b"share" for each in joined.members},
        )
        self.stage.ask(lambda shard, turn, who: shard.classic.sync(turn, who, ask))
        self.members[group] = ("classic", joined.member_id, joined.generation)

    @rule(group=GROUPS, topic=TOPICS)
    def join_consumer(self, group: str, topic: str) -> None:
        kind, member_id, _ = self.members.get(group, ("", "me", 0))
        ask = ConsumerHeartbeat(
            group_id=group,
            member_id=member_id if kind == "consumer" else "me",
            member_epoch=0,
            client=CLIENT,
            rebalance_timeout_ms=60_000,
            topic_names=(topic,),
            owned={},
        )
        try:
            answer = self.stage.ask(lambda shard, turn, _: shard.consumer.heartbeat(turn, ask))
        except KafkaError as error:
            assert error.code is ErrorCode.group_id_not_found  # noqa: PT017
            assert kind == "classic"
            return
        assert kind != "classic"
        self.members[group] = ("consumer", answer.member_id, answer.member_epoch)

    @rule(group=GROUPS)
    def leave(self, group: str) -> None:
        member = self.members.pop(group, None)
        if member is None:
            return
        leaver = Leaver(member_id=member[1], instance_id=None)
        (left,) = self.stage.ask(lambda shard, turn, _: shard.leave(turn, group, [leaver]))
        assert left.error is ErrorCode.none

    def _silence(self, group: str) -> None:
        """Everybody of the group is silent until nobody is left."""
        self.members.pop(group, None)
        self.stage.pass_time(3_600_000)
        self._lose_sessions()

    def _lose_sessions(self) -> None:
        self.members.clear()

    # --- offsets -------------------------------------------------------------------------------

    @rule(group=GROUPS, topic=TOPICS, partition=st.integers(0, 1), offset=st.integers(0, 99))
    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        found = self.stage.image.topics.get(topic)
        if found is None:
            return  # The API refuses it before it comes here.
        _, member_id, generation = self.members.get(group, ("", "", -1))
        ask = Commit(
            group_id=group,
            member_id=member_id,
            instance_id=None,
            generation=generation,
            knows_epochs=True,
            partitions=(
                CommitPartition(
                    topic=topic, topic_id=found.id_bytes, partition=partition, offset=offset
                ),
            ),
        )
        codes = self.stage.ask(lambda shard, turn, _: shard.commit(turn, ask))
        assert codes == [ErrorCode.none]
        self.offsets[group, topic, partition] = offset

    @rule(group=GROUPS, topic=TOPICS, partition=st.integers(0, 1))
    def commit_as_somebody_else(self, group: str, topic: str, partition: int) -> None:
        """Whoever is no member is refused while there are members."""
        if group not in self.members:
            return
        ask = Commit(
            group_id=group,
            member_id="stranger",
            instance_id=None,
            generation=1,
            knows_epochs=True,
            partitions=(
                CommitPartition(topic=topic, topic_id=bytes(16), partition=partition, offset=1000),
            ),
        )
        try:
            self.stage.ask(lambda shard, turn, _: shard.commit(turn, ask))
        except KafkaError as error:
            assert error.code is ErrorCode.unknown_member_id  # noqa: PT017
            return
        raise AssertionError("a stranger committed")

    # --- the rest of the world -----------------------------------------------------------------

    @rule(group=GROUPS)
    def delete(self, group: str) -> None:
        try:
            self.stage.ask(lambda shard, turn, _: shard.delete_group(turn, group))
        except KafkaError as error:
            if group in self.members:
                assert error.code is ErrorCode.non_empty_group  # noqa: PT017
            else:
                assert error.code is ErrorCode.group_id_not_found  # noqa: PT017
                assert not self._offsets_of(group)
            return
        assert group not in self.members
        self._forget(lambda place: place[0] == group)

    @precondition(lambda self: len(self.stage.image.topics) == 2)
    @rule(topic=TOPICS, told=st.booleans())
    def replace_topic(self, topic: str, told: bool) -> None:
        """Nobody goes on in a new topic where the old one of that name was left."""
        self.stage.delete_topic(topic, told=told)
        self.stage.create_topic(topic)
        if not told:
            self.reload()
        self._forget(lambda place: place[1] == topic)

    @rule()
    def wait_long(self) -> None:
        """Sessions end after a while, offsets of groups without members after a week."""
        self.stage.pass_time(9 * DAY_MS)
        self._lose_sessions()
        self.offsets.clear()
        self.days = 0
        assert self.stage.shard.list_groups() == []
        assert self.stage.stored_keys == 0, "nothing is left behind in the log"

    @precondition(lambda self: not self.offsets or self.days < 6)
    @rule()
    def wait_a_day(self) -> None:
        """Not long enough for offsets, whatever became of the members."""
        self.days = self.days + 1 if self.offsets else 0
        self.stage.pass_time(DAY_MS)
        self._lose_sessions()
        self.stage.reload()

    @rule()
    def reload(self) -> None:
        """A crash, at any time, changes nothing that was answered."""
        before = self._seen()
        self.stage.reload()
        assert self._seen() == before

    # --- what holds always ---------------------------------------------------------------------

    @invariant()
    def what_was_committed_is_what_is_told(self) -> None:
        for group in ("one", "two"):
            told = self.stage.shard.offsets.all_of(group)
            assert {place: each.offset for place, each in told.items()} == self._offsets_of(group)

    @invariant()
    def groups_are_there_while_they_have_members_or_offsets(self) -> None:
        listed = {each.group_id: each for each in self.stage.shard.list_groups()}
        for group, (kind, *_) in self.members.items():
            assert (listed[group].kind, listed[group].state) == (kind, "Stable")
        for group in {place[0] for place in self.offsets}:
            assert group in listed

    def _seen(self) -> Any:
        listed = sorted(
            (each.group_id, each.kind, each.state) for each in self.stage.shard.list_groups()
        )
        # A group that only ever refused, or lost all it had, need not be remembered.
        held = {place[0] for place in self.offsets} | set(self.members)
        return [each for each in listed if each[0] in held]

    def _offsets_of(self, group: str) -> dict[tuple[str, int], int]:
        return {place[1:]: at for place, at in self.offsets.items() if place[0] == group}

    def _forget(self, gone: Any) -> None:
        self.offsets = {place: at for place, at in self.offsets.items() if not gone(place)}


def _join(group: str) -> Join:
    return Join(
        group_id=group,
        member_id="",
        instance_id=None,
        client=CLIENT,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(("range", b"unreadable"),),
        needs_member_id=False,
    )


TestGroupShardMachine = GroupShardMachine.TestCase
TestGroupShardMachine.settings = settings(max_examples=150, stateful_step_count=40)
