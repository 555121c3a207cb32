"""Offsets that are committed within transactions: when they are seen, and what they hold up."""

import pytest
from tests.coordinator.offsets.test_offsets import DAY_MS, IMAGE, Desk, Members, a_topic, at

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import UNSTABLE, CommitPartition, TxnCommit
from barnabas.coordinator.runtime.turn import Turn
from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import ProducerIdentity
from barnabas.wire.stored import OffsetCommit, OffsetValue, Stored

ANN, BEN = ProducerIdentity(1, 0), ProducerIdentity(2, 7)


class TxnDesk(Desk):
    """Takes what is written in transactions as the runtime would have it taken."""

    def txn_commit(
        self,
        *partitions: CommitPartition,
        group: Members | None,
        producer: ProducerIdentity = ANN,
        generation: int = -1,
    ) -> list[ErrorCode]:
        ask = TxnCommit(
            group_id="g" if group is None else group.group_id,
            member_id="m",
            instance_id="i",
            generation=generation,
            producer=producer,
            partitions=partitions,
        )
        turn = self.turn()
        codes = self.offsets.txn_commit(turn, group, ask)
        self.take(turn)
        return codes

    def take(self, turn: Turn[Stored]) -> None:
        if turn.transactional is None:
            return
        for record in turn.transactional.records:
            assert isinstance(record, OffsetCommit)
            self.offsets.apply_pending(record, turn.transactional.producer.producer_id)

    def end(self, producer: ProducerIdentity = ANN, *, committed: bool = True) -> None:
        self.offsets.end_transaction(producer.producer_id, committed=committed)

    def seen(self, partition: int = 0, topic: str = "t", group: str = "g") -> int | None:
        found = self.offsets.fetch(group, topic, partition)
        return None if found is None else found.offset

    def is_stable(self, partition: int = 0, topic: str = "t") -> bool:
        return self.offsets.fetch("g", topic, partition, require_stable=True) is not UNSTABLE


@pytest.fixture
def desk() -> TxnDesk:
    return TxnDesk()


def test_is_seen_when_the_transaction_is_committed(desk: TxnDesk) -> None:
    group = Members()
    desk.commit(at("t", 0, 3), group=group)
    assert desk.txn_commit(at("t", 0, 10), at("t", 1, 11), group=group) == [ErrorCode.none] * 2
    assert (desk.seen(0), desk.seen(1), desk.seen(2)) == (3, None, None)
    assert (desk.is_stable(0), desk.is_stable(1), desk.is_stable(2)) == (False, False, True)
    assert set(desk.offsets.all_of("g")) == {("t", 0)}
    assert desk.offsets.all_of("g", require_stable=True) == {("t", 0): UNSTABLE}
    desk.end()
    assert (desk.seen(0), desk.seen(1)) == (10, 11)
    assert desk.is_stable(0)
    assert desk.is_stable(1)


def test_is_never_seen_when_the_transaction_is_aborted(desk: TxnDesk) -> None:
    group = Members()
    desk.commit(at("t", 0, 3), group=group)
    desk.txn_commit(at("t", 0, 10), at("t", 1, 11), group=group)
    desk.end(committed=False)
    assert (desk.seen(0), desk.seen(1)) == (3, None)
    assert desk.is_stable(0)
    desk.end()
    assert desk.seen(0) == 3, "a second end finds nothing"


def test_what_is_written_is_as_a_plain_commit_would_be(desk: TxnDesk) -> None:
    guard = VerificationGuard()
    turn = desk.turn()
    ask = TxnCommit(
        group_id="g",
        member_id="",
        instance_id=None,
        generation=-1,
        producer=BEN,
        partitions=(at("t", 0, 5, "note", topic_id=b"i" * 16),),
        guard=guard,
    )
    assert desk.offsets.txn_commit(turn, None, ask) == [ErrorCode.none]
    value = OffsetValue(
        offset=5,
        leader_epoch=7,
        metadata="note",
        commit_timestamp=desk.now_ms,
        topic_id=b"i" * 16,
    )
    assert turn.records == []
    assert turn.transactional == (BEN, (OffsetCommit("g", "t", 0, value),), guard)


def test_the_group_is_asked_first(desk: TxnDesk) -> None:
    group = Members(refuses=ErrorCode.illegal_generation)
    with pytest.raises(KafkaError) as refused:
        desk.txn_commit(at("t", 0, 5), group=group, generation=3)
    assert refused.value.code is ErrorCode.illegal_generation
    assert group.asked == [("m", "i", 3, False)]
    assert desk.is_stable()


def test_only_nobody_in_particular_commits_to_a_group_that_is_not_there(desk: TxnDesk) -> None:
    with pytest.raises(KafkaError) as refused:
        desk.txn_commit(at("t", 0, 5), group=None, generation=0)
    assert refused.value.code is ErrorCode.illegal_generation
    assert desk.txn_commit(at("t", 0, 5), group=None) == [ErrorCode.none]
    assert list(desk.offsets.groups()) == ["g"]
    desk.end()
    assert desk.seen() == 5


def test_long_metadata_is_refused_alone() -> None:
    desk = TxnDesk(GroupSettings(offset_metadata_max_bytes=3))
    codes = desk.txn_commit(at("t", 0, 5, "long"), at("t", 1, 6, "ok"), group=Members())
    assert codes == [ErrorCode.offset_metadata_too_large, ErrorCode.none]
    assert desk.is_stable(0)
    assert not desk.is_stable(1)
    assert desk.txn_commit(at("t", 0, 5, "long"), group=Members(), producer=BEN) == codes[:1]
    desk.end(BEN)
    assert not desk.is_stable(1), "nothing was written for the other producer"


def test_whatever_was_written_last_stays(desk: TxnDesk) -> None:
    group = Members()
    desk.txn_commit(at("t", 0, 10), group=group)
    desk.commit(at("t", 0, 4), group=group)
    assert desk.seen() == 4
    assert not desk.is_stable(), "the transaction is open all the same"
    desk.end()
    assert desk.seen() == 4
    assert desk.is_stable()


def test_two_transactions_in_one_place(desk: TxnDesk) -> None:
    group = Members()
    desk.txn_commit(at("t", 0, 10), group=group, producer=ANN)
    desk.txn_commit(at("t", 0, 20), group=group, producer=BEN)
    desk.end(BEN)
    assert desk.seen() == 20
    assert not desk.is_stable()
    desk.end(ANN)
    assert desk.seen() == 20, "what was written before it does not replace it"
    assert desk.is_stable()
    desk.txn_commit(at("t", 0, 30), group=group, producer=ANN)
    desk.txn_commit(at("t", 0, 40), group=group, producer=BEN)
    desk.end(BEN, committed=False)
    desk.end(ANN)
    assert desk.seen() == 30


def test_one_transaction_in_two_groups(desk: TxnDesk) -> None:
    desk.txn_commit(at("t", 0, 1), group=Members())
    desk.txn_commit(at("t", 0, 2), group=Members("h"))
    desk.offsets.delete_all(desk.turn(), "h")
    assert list(desk.offsets.groups()) == ["g"]
    desk.end()
    assert (desk.seen(), desk.seen(group="h")) == (1, None)


def test_deleting_an_offset_deletes_what_is_pending_for_it(desk: TxnDesk) -> None:
    group = Members()
    desk.commit(at("t", 0, 3), group=group)
    desk.txn_commit(at("t", 0, 10), at("t", 1, 11), at("t", 2, 12), group=group)
    desk.offsets.delete(desk.turn(), group, [("t", 0), ("t", 1), ("t", 9)])
    tombstones = [each for each in desk.records if each.value is None]
    assert tombstones == [OffsetCommit("g", "t", number, None) for number in (0, 1)]
    assert desk.is_stable(0)
    desk.end()
    assert (desk.seen(0), desk.seen(1), desk.seen(2)) == (None, None, 12)


def test_a_deleted_group_leaves_nothing_pending(desk: TxnDesk) -> None:
    group = Members()
    desk.commit(at("t", 0, 3), group=group)
    desk.txn_commit(at("t", 0, 10), at("t", 1, 11), group=group)
    desk.offsets.delete_all(desk.turn(), "g")
    tombstones = [each for each in desk.records if each.value is None]
    assert tombstones == [OffsetCommit("g", "t", number, None) for number in (0, 1)]
    desk.end()
    assert desk.offsets.all_of("g") == {}
    assert list(desk.offsets.groups()) == []


def test_nothing_expires_that_a_transaction_may_change(desk: TxnDesk) -> None:
    group = Members()
    desk.commit(at("t", 0, 3), at("t", 1, 3), group=group)
    desk.txn_commit(at("t", 0, 10), group=group)
    desk.pass_ms(8 * DAY_MS)
    assert not desk.offsets.expire(desk.turn(), group)
    assert set(desk.offsets.all_of("g")) == {("t", 0)}
    desk.end(committed=False)
    assert desk.offsets.expire(desk.turn(), group)


def test_a_group_with_nothing_but_pending_offsets_is_not_empty(desk: TxnDesk) -> None:
    group = Members()
    desk.txn_commit(at("t", 0, 10), group=group)
    assert not desk.offsets.expire(desk.turn(), group)
    desk.end()
    desk.pass_ms(8 * DAY_MS)
    assert desk.offsets.expire(desk.turn(), group), "it is as old as it was when it was written"


def test_what_is_pending_for_a_deleted_topic_is_forgotten(desk: TxnDesk) -> None:
    old, new = a_topic("t", 1), a_topic("t", 2)
    group = Members()
    desk.txn_commit(at("t", 0, 1, topic_id=old.id_bytes), at("u", 0, 1), group=group)
    desk.txn_commit(at("t", 1, 1), group=group)
    desk.txn_commit(at("t", 2, 1, topic_id=new.id_bytes), group=group)
    desk.offsets.topics_deleted(desk.turn(), [old])
    desk.end()
    assert set(desk.offsets.all_of("g")) == {("u", 0), ("t", 2)}


def test_an_offset_of_a_replaced_topic_does_not_take_what_is_pending_with_it(
    desk: TxnDesk,
) -> None:
    old, new = a_topic("t", 1), a_topic("t", 2)
    group = Members()
    desk.commit(at("t", 0, 1, topic_id=old.id_bytes), group=group)
    desk.txn_commit(at("t", 0, 2, topic_id=new.id_bytes), group=group)
    desk.image = IMAGE.with_topics([new])
    desk.offsets.forget_replaced_topics(desk.turn())
    desk.end()
    assert desk.seen() == 2
