"""How partitions move between members; the epochs are those that a Kafka 4.3 answers with."""

import pytest
from tests.coordinator.consumer.stage import Stage

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import ConsumerHeartbeatAnswer
from barnabas.model.errors import ErrorCode, KafkaError


class Beats:
    """Heartbeats of a group that reads topic `t`, each answered in a line."""

    def __init__(self, partitions: int, settings: GroupSettings | None = None) -> None:
        self.stage = Stage(settings)
        self.stage.topic("t", partitions)

    def join(self, member_id: str, timeout_ms: int = 60_000) -> tuple[int, tuple[int, ...] | None]:
        return self._short(self.stage.join(member_id, "t", rebalance_timeout_ms=timeout_ms))

    def beat(
        self, member_id: str, epoch: int, *owned: int, silent: bool = False
    ) -> tuple[int, tuple[int, ...] | None]:
        """`owned` are partitions of `t`; `silent` about them means: as before."""
        said = None if silent else (self.stage.owning(t=owned) if owned else {})
        return self._short(self.stage.ask(member_id, epoch, owned=said))

    def _short(self, answer: ConsumerHeartbeatAnswer) -> tuple[int, tuple[int, ...] | None]:
        assignment = self.stage.named(answer.assignment)
        return answer.member_epoch, None if assignment is None else assignment.get("t", ())


def test_the_first_member_gets_everything_at_once() -> None:
    group = Beats(3)
    assert group.join("a") == (2, (0, 1, 2))
    assert group.stage.describe().state == "Stable"
    assert group.stage.describe().group_epoch == group.stage.describe().assignment_epoch == 2


def test_a_steady_heartbeat_writes_nothing_and_repeats_nothing() -> None:
    group = Beats(3)
    group.join("a")
    for owned in ((), (0,), (0, 1, 2), (0, 9)):
        assert group.beat("a", 2, *owned) == (2, None)
        assert group.stage.written == 0
    assert group.beat("a", 2, silent=True) == (2, None)


def test_a_full_request_is_answered_in_full() -> None:
    group = Beats(2)
    group.join("a")
    answer = group.stage.ask(
        "a", 2, topic_names=("t",), rebalance_timeout_ms=60_000, owned=group.stage.owning(t=(0, 1))
    )
    assert group.stage.named(answer.assignment) == {"t": (0, 1)}
    assert group.stage.written == 0
    assert group.join("a") == (2, (0, 1)), "joining again changes nothing"
    assert group.stage.written == 0


def test_a_partition_is_given_out_when_its_owner_has_released_it() -> None:
    group = Beats(4)
    group.join("a")
    assert group.join("b") == (3, ())
    assert group.stage.describe().state == "Reconciling"
    assert group.beat("b", 3) == (3, None), "nothing is free"
    assert group.beat("a", 2, silent=True) == (2, (0, 1)), "told to give up"
    assert group.beat("a", 2, 0, 1, 2, 3) == (2, None)
    assert group.beat("b", 3) == (3, None)
    assert group.beat("a", 2, 0, 1, 2) == (2, None), "not all of it"
    assert group.beat("a", 2, silent=True) == (2, None), "silence confirms nothing"
    assert group.beat("b", 3) == (3, None)
    assert group.stage.described("a").assignment == group.stage.owning(t=(0, 1, 2, 3))
    assert group.beat("a", 2, 0, 1) == (3, None)
    assert group.beat("b", 3) == (3, (2, 3))
    assert group.stage.describe().state == "Stable"


def test_the_others_take_over_what_a_leaver_had() -> None:
    group = Beats(4)
    group.join("a")
    group.join("b")
    answer = group.stage.ask("a", -1)
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (-1, 0)
    assert group.stage.describe().state == "Assigning"
    assert group.beat("b", 3) == (4, (0, 1, 2, 3))
    assert group.stage.describe().last_rebalance is not None
    group.stage.ask("b", -1)
    described = group.stage.describe()
    assert (described.state, described.group_epoch, described.assignment_epoch) == ("Empty", 5, 4)


def test_a_lost_answer_is_made_good_by_the_previous_epoch() -> None:
    group = Beats(2)
    group.join("a")
    group.join("b")
    group.beat("a", 2, silent=True)
    assert group.beat("a", 2, 0) == (3, None)
    assert group.beat("a", 2, 0) == (3, None), "it asks again with the epoch it knows"
    assert group.beat("a", 2) == (3, None)
    for epoch, owned, silent in ((2, (), True), (2, (0, 1), False), (1, (0,), False)):
        with pytest.raises(KafkaError) as refused:
            group.beat("a", epoch, *owned, silent=silent)
        assert refused.value.code is ErrorCode.fenced_member_epoch
    assert group.beat("a", 3, silent=True) == (3, None)


def test_who_does_not_give_up_in_time_is_fenced_out() -> None:
    group = Beats(2)
    group.join("a", timeout_ms=1_000)
    group.join("b", timeout_ms=1_000)
    assert group.beat("a", 2, silent=True) == (2, (0,))
    group.stage.after(999)
    assert "a" in group.stage.group().members
    group.stage.after(1)
    with pytest.raises(KafkaError) as refused:
        group.beat("a", 2, silent=True)
    assert refused.value.code is ErrorCode.unknown_member_id
    assert group.beat("b", 3) == (4, (0, 1))
    last = group.stage.describe().last_rebalance
    assert last is not None
    assert last.reason == (
        "member a did not give up partitions within its rebalance timeout of 1 s"
    )


def test_who_gave_up_in_time_is_not_fenced_out() -> None:
    group = Beats(2)
    group.join("a", timeout_ms=1_000)
    group.join("b", timeout_ms=1_000)
    group.beat("a", 2, silent=True)
    group.beat("a", 2, 0)
    group.stage.after(10_000)
    assert group.beat("a", 3, 0) == (3, None)


def test_a_silent_member_is_fenced_when_its_session_ends() -> None:
    group = Beats(2)
    group.join("a")
    group.join("b")
    for _ in range(9):
        group.stage.after(5_000)
        group.beat("b", 3)
    assert set(group.stage.group().members) == {"b"}
    assert group.beat("b", 4) == (4, None)
    last = group.stage.describe().last_rebalance
    assert last is not None
    assert last.reason == "member a was silent for longer than its session timeout of 45 s"
    assert last.at_ms == group.stage.wall_ms
    group.stage.after(45_000)
    assert group.stage.describe().state == "Empty"
    assert not group.stage.timers


def test_a_wall_clock_that_jumps_ends_no_session() -> None:
    group = Beats(1)
    group.join("a")
    for jump_ms in (86_400_000, -2 * 86_400_000):
        group.stage.wall_ms += jump_ms
        group.stage.after(44_999)
        assert group.beat("a", 2) == (2, None)
    assert group.join("b") == (3, ())


def test_a_fenced_member_comes_back_with_nothing_in_its_hands() -> None:
    group = Beats(2)
    group.join("a")
    group.join("b")
    group.beat("a", 2, silent=True)
    assert group.join("a") == (3, (0,)), "what it was to give up is given up"
    assert group.beat("b", 3) == (3, (1,))


def test_topics_that_come_grow_and_go() -> None:
    stage = Stage()
    assert stage.join("a", "x", "y").assignment == {}
    stage.topic("x", 1)
    answer = stage.ask("a", 2)
    assert (answer.member_epoch, stage.named(answer.assignment)) == (3, {"x": (0,)})
    stage.topic("x", 3)
    answer = stage.ask("a", 3)
    assert (answer.member_epoch, stage.named(answer.assignment)) == (4, {"x": (0, 1, 2)})
    last = stage.describe().last_rebalance
    assert last is not None
    assert last.reason == "topic x got partitions"
    stage.topic("y", 1)
    assert stage.ask("a", 4).member_epoch == 5
    owned = stage.owning(y=(0,))
    stage.delete("x")
    answer = stage.ask("a", 5)
    assert (answer.member_epoch, stage.named(answer.assignment)) == (5, {"y": (0,)})
    assert stage.ask("a", 5, owned=owned).member_epoch == 6
    assert stage.describe().state == "Stable"
    last = stage.describe().last_rebalance
    assert last is not None
    assert last.reason == "topic x was deleted"


def test_a_topic_that_nobody_reads_changes_nothing() -> None:
    group = Beats(1)
    group.join("a")
    group.stage.topic("other", 5)
    assert group.beat("a", 2) == (2, None)
    assert group.stage.written == 0


def test_a_topic_made_anew_under_its_old_name_is_another_topic() -> None:
    group = Beats(1)
    group.join("a")
    old = group.stage.owning(t=(0,))
    group.stage.delete("t")
    group.stage.topic("t", 1)
    answer = group.stage.ask("a", 2, owned=old)
    assert answer.assignment == {}, "the old one is to be given up first"
    answer = group.stage.ask("a", 2, owned={})
    assert answer.assignment == group.stage.owning(t=(0,))
    assert old.keys().isdisjoint(group.stage.owning(t=(0,)))


def test_a_changed_subscription_takes_topics_away_at_once() -> None:
    group = Beats(2)
    group.stage.topic("u", 1)
    group.join("a")
    answer = group.stage.ask("a", 2, topic_names=("u", "u"))
    assert (answer.member_epoch, answer.assignment) == (2, {})
    assert group.stage.describe().state == "Reconciling"
    answer = group.stage.ask("a", 2, owned={})
    assert (answer.member_epoch, group.stage.named(answer.assignment)) == (3, {"u": (0,)})


def test_members_with_different_subscriptions_get_only_their_own_topics() -> None:
    stage = Stage()
    stage.topic("x", 2)
    stage.topic("y", 2)
    stage.join("a", "x")
    answer = stage.join("b", "y")
    assert stage.named(answer.assignment) == {"y": (0, 1)}
    answer = stage.ask("a", 2)
    assert (answer.member_epoch, stage.named(answer.assignment)) == (3, None)


def test_members_vote_for_the_assignor() -> None:
    stage = Stage()
    stage.topic("t", 3)
    stage.join("a", "t", server_assignor="range")
    assert stage.describe().assignor == "range"
    stage.join("b", "t", server_assignor="uniform")
    assert stage.describe().assignor == "uniform", "the first configured, of equals"
    stage.join("c", "t", server_assignor="range")
    assert stage.describe().assignor == "range"
    stage.ask("a", -1)
    stage.ask("c", -1)
    stage.ask("b", -1)
    assert stage.describe().assignor == "uniform"


def test_a_member_that_reads_nothing_is_a_member() -> None:
    stage = Stage()
    answer = stage.join("a")
    assert (answer.member_epoch, answer.assignment) == (1, {})
    assert stage.describe().state == "Stable"
    assert stage.describe().last_rebalance is None
    stage.reload()
    assert stage.ask("a", 1).member_epoch == 1


def test_settings_count_from_the_next_heartbeat_on() -> None:
    group = Beats(1)
    group.join("a")
    group.stage.settings = GroupSettings(
        consumer_heartbeat_interval_ms=100, consumer_session_timeout_ms=50_000
    )
    assert group.stage.ask("a", 2).heartbeat_interval_ms == 100
    group.stage.after(49_999)
    assert "a" in group.stage.group().members
    group.stage.after(1)
    assert "a" not in group.stage.group().members
