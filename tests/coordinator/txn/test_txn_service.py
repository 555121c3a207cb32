"""Transactions from their beginning to their last marker, on the runtime, in virtual time."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.coordinator.txn.bureau import WALL_MS, A, B, Bureau, run, settled

from barnabas.coordinator.txn.asks import TransactionListing, TransactionState
from barnabas.coordinator.txn.transaction import EPOCH_MAX, Transaction
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TRANSACTION_STATE, TopicPartition
from barnabas.model.transactions import CLASSIC_TRANSACTIONS, NOBODY, ProducerIdentity
from barnabas.ports.coordination import CoordinationError

S = TransactionState

FORGETFUL = {
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}


async def refused(asking: Coroutine[Any, Any, Any]) -> ErrorCode:
    try:
        await asking
    except KafkaError as error:
        return error.code
    raise AssertionError("nothing was refused")


async def until(bureau: Bureau, state: TransactionState, name: str = "x") -> None:
    for _ in range(1000):
        if await bureau.state(name) is state:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"it never gets to {state.title}")


async def exhausted(bureau: Bureau) -> ProducerIdentity:
    """The owner of the last epoch."""
    me = ProducerIdentity(1000, EPOCH_MAX - 1)
    bureau.store(
        Transaction(
            transactional_id="x",
            producer_id=next(bureau.producer_ids),
            epoch=me.epoch,
            timeout_ms=60_000,
            state=S.EMPTY,
            last_update_ms=WALL_MS,
        )
    )
    await bureau.elect()
    return me


# --- whole transactions --------------------------------------------------------------------------


def test_a_transaction_of_the_bumped_generation() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        assert me == (1000, 0)
        await bureau.add(me, A)
        await bureau.add(me, B)
        following = await bureau.end(me)
        assert following == (1000, 1)
        assert await bureau.state() is S.PREPARE_COMMIT, "answered before any marker is written"
        await until(bureau, S.COMPLETE_COMMIT)
        assert {partition for _, partition in bureau.partitions.written} == {A, B}
        (marker,) = {marker for marker, _ in bureau.partitions.written}
        assert (marker.producer_id, marker.epoch, marker.coordinator_epoch) == (1000, 1, 1)
        assert (marker.committed, marker.transaction_version) == (True, 2)
        await bureau.add(following, A)
        assert await bureau.end(following, committed=False) == (1000, 2)
        await until(bureau, S.COMPLETE_ABORT)

    run(story)


def test_a_transaction_of_the_classic_generation() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        for committed in (True, False):
            await bureau.add(me, A, version=CLASSIC_TRANSACTIONS)
            assert await bureau.end(me, committed=committed, version=0) == NOBODY
            await until(bureau, S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
            marker, _ = bureau.partitions.written[-1]
            assert (marker.epoch, marker.committed, marker.transaction_version) == (0, committed, 0)
        assert (await bureau.describe()).producer == me

    run(story)


def test_what_a_transaction_goes_through_is_in_the_log() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await bureau.add(me, A)
        await bureau.end(me)
        await until(bureau, S.COMPLETE_COMMIT)
        stored = [each for each in bureau.stored() if isinstance(each, Transaction)]
        states = [each.state for each in stored]
        assert states == [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT]
        assert [each.epoch for each in stored] == [0, 0, 1, 1]
        assert [each.version for each in stored] == [0, 2, 2, 2]

    run(story)


def test_several_processes_share_one_transaction() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await asyncio.gather(bureau.add(me, A), bureau.add(me, B), bureau.add(me, A))
        assert (await bureau.describe()).partitions == (A, B)
        results = await bureau.verify(me, A, B)
        assert set(results.values()) == {ErrorCode.none}
        await bureau.end(me)
        await until(bureau, S.COMPLETE_COMMIT)
        assert {partition for _, partition in bureau.partitions.written} == {A, B}

    run(story)


def test_an_abort_of_nothing_ends_without_markers() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        assert await bureau.end(me, committed=False) == (1000, 1)
        await until(bureau, S.COMPLETE_ABORT)
        assert bureau.partitions.written == []

    run(story)


def test_partitions_that_are_in_it_already_are_not_written_again() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await bureau.add(me, A, B)
        before = bureau.log.end_offset
        await bureau.add(me, B)
        await bureau.add(me)
        assert bureau.log.end_offset == before

    run(story)


# --- who is refused ------------------------------------------------------------------------------


def test_adding_and_verifying_are_for_the_owner() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        stranger, zombie = ProducerIdentity(5, 0), ProducerIdentity(1000, 7)
        for ask in (bureau.add, bureau.verify):
            assert await refused(ask(stranger, A)) is ErrorCode.invalid_producer_id_mapping
            assert await refused(ask(zombie, A)) is ErrorCode.producer_fenced
            assert await refused(ask(me, A, name="y")) is ErrorCode.invalid_producer_id_mapping
            assert await refused(ask(me, A, name="")) is ErrorCode.invalid_request
        assert await bureau.verify(me, A) == {A: ErrorCode.transaction_abortable}
        await bureau.add(me, A)
        assert await bureau.verify(me, A, B) == {
            A: ErrorCode.none,
            B: ErrorCode.transaction_abortable,
        }
        assert await refused(bureau.end(me, name="y")) is ErrorCode.invalid_producer_id_mapping

    run(story)


def test_while_markers_are_written_everybody_has_to_come_again() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.partitions.trouble = lambda _: ErrorCode.not_leader_or_follower
        me = await bureau.init()
        await bureau.add(me, A)
        following = await bureau.end(me)
        concurrent = ErrorCode.concurrent_transactions
        for producer in (me, following, ProducerIdentity(5, 5)):
            assert await refused(bureau.add(producer, A)) is concurrent
            assert await refused(bureau.end(producer)) is concurrent
        assert await refused(bureau.end(following, version=0)) is concurrent
        assert await refused(bureau.end(me, version=0)) is ErrorCode.producer_fenced
        assert await refused(bureau.verify(following, A)) is concurrent
        assert await refused(bureau.verify(me, A)) is ErrorCode.producer_fenced
        assert await refused(bureau.init()) is concurrent
        bureau.partitions.trouble = lambda _: ErrorCode.none
        await until(bureau, S.COMPLETE_COMMIT)
        await bureau.add(following, A)

    run(story)


def test_a_refusal_waits_until_what_it_tells_of_is_committed() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        bureau.log.hold = True
        taking_over = asyncio.ensure_future(bureau.init())
        await asyncio.sleep(0.1)
        adding = asyncio.ensure_future(bureau.add(me, A))
        await asyncio.sleep(0.1)
        assert not adding.done()
        bureau.log.hold = False
        bureau.log.lose()
        for each in (taking_over, adding):
            assert await refused(_awaited(each)) is ErrorCode.not_coordinator
        await bureau.in_office()
        await bureau.add(me, A)

    run(story)


async def _awaited(task: "asyncio.Future[Any]") -> Any:
    return await task


def test_before_there_is_a_topic_nobody_is_coordinated() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.cluster.delete(TRANSACTION_STATE)
        assert await refused(bureau.init()) is ErrorCode.not_coordinator
        assert await refused(bureau.describe()) is ErrorCode.not_coordinator

    run(story)


def test_the_topic_is_made_once_and_fits_the_cluster() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.cluster.delete(TRANSACTION_STATE)
        ready = bureau.coordinator.ready
        bureau.cluster.refusal = ErrorCode.policy_violation
        assert await refused(ready()) is ErrorCode.coordinator_not_available
        bureau.cluster.refusal = ErrorCode.none
        bureau.cluster.asked.clear()
        await asyncio.gather(ready(), ready())
        await ready()
        (made,) = bureau.cluster.asked
        assert (made.name, made.partitions, made.replication_factor) == (TRANSACTION_STATE, 50, 1)
        assert made.configs == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }

    run(story)


# --- owners --------------------------------------------------------------------------------------


def test_a_new_owner_aborts_what_is_open_and_comes_again() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await bureau.add(me, A)
        assert await refused(bureau.init()) is ErrorCode.concurrent_transactions
        await until(bureau, S.COMPLETE_ABORT)
        assert [marker.committed for marker, _ in bureau.partitions.written] == [False]
        assert await refused(bureau.add(me, A)) is ErrorCode.producer_fenced
        assert await bureau.init() == (1000, 2)

    run(story)


def test_the_owner_of_an_aborted_transaction_goes_on_by_its_claim() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await bureau.add(me, A)
        assert await refused(bureau.init(claimed=me)) is ErrorCode.concurrent_transactions
        await until(bureau, S.COMPLETE_ABORT)
        assert await bureau.init(claimed=me) == (1000, 1)

    run(story)


def test_a_producer_id_is_taken_when_it_is_needed_and_not_before() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.id_trouble = CoordinationError("no quorum")
        assert await refused(bureau.init()) is ErrorCode.coordinator_load_in_progress
        bureau.id_trouble = None
        assert await bureau.init() == (1000, 0)
        bureau.id_trouble = KafkaError(ErrorCode.coordinator_not_available)
        assert await bureau.init() == (1000, 1)

    run(story)


def test_with_the_last_epoch_a_transaction_ends_under_a_new_producer_id() -> None:
    async def story(bureau: Bureau) -> None:
        me = await exhausted(bureau)
        assert me == (1000, EPOCH_MAX - 1)
        await bureau.add(me, A)
        assert await bureau.end(me) == (1001, 0)
        await until(bureau, S.COMPLETE_COMMIT)
        marker, _ = bureau.partitions.written[-1]
        assert (marker.producer_id, marker.epoch) == (1000, EPOCH_MAX)
        assert await bureau.end(me) == (1001, 0), "it was not told, and asks again"
        await bureau.elect()
        assert await bureau.end(me) == (1001, 0), "nor does a new coordinator forget it"
        await bureau.add(ProducerIdentity(1001, 0), A)

    run(story)


def test_with_the_last_epoch_an_open_transaction_times_out() -> None:
    async def story(bureau: Bureau) -> None:
        me = await exhausted(bureau)
        await bureau.add(me, A)
        bureau.id_trouble = KafkaError(ErrorCode.coordinator_not_available)
        await asyncio.sleep(120)
        assert await bureau.state() is S.ONGOING
        bureau.id_trouble = None
        await until(bureau, S.COMPLETE_ABORT)
        assert (await bureau.describe()).producer == (1001, 0)

    run(story)


# --- markers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.transaction_coordinator_fenced,
    ],
)
def test_what_fails_for_now_is_tried_again_where_it_failed(code: ErrorCode) -> None:
    async def story(bureau: Bureau) -> None:
        bureau.partitions.trouble = lambda each: code if each == B else ErrorCode.none
        me = await bureau.init()
        await bureau.add(me, A, B)
        await bureau.end(me)
        await asyncio.sleep(20)
        assert await bureau.state() is S.PREPARE_COMMIT
        bureau.partitions.trouble = lambda _: ErrorCode.none
        await until(bureau, S.COMPLETE_COMMIT)
        assert [partition for _, partition in bureau.partitions.written] == [A, B]

    run(story)


@pytest.mark.parametrize(
    "code", [ErrorCode.invalid_producer_epoch, ErrorCode.unsupported_for_message_format]
)
def test_what_fails_for_good_does_not_hold_up_the_rest(code: ErrorCode) -> None:
    async def story(bureau: Bureau) -> None:
        bureau.partitions.trouble = lambda each: code if each == B else ErrorCode.none
        me = await bureau.init()
        await bureau.add(me, A, B)
        await bureau.end(me)
        await until(bureau, S.COMPLETE_COMMIT)

    run(story)


def test_a_topic_that_was_deleted_meanwhile_is_left_out() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await bureau.add(me, A, B)
        bureau.delete_topic("b")
        bureau.partitions.trouble = lambda _: ErrorCode.unknown_topic_or_partition
        following = await bureau.end(me)
        await asyncio.sleep(5)
        assert await bureau.state() is S.PREPARE_COMMIT
        bureau.delete_topic("a")
        await until(bureau, S.COMPLETE_COMMIT)
        assert bureau.partitions.written == []
        await bureau.add(following, TopicPartition("a", 9))
        await bureau.end(following)
        await until(bureau, S.COMPLETE_COMMIT)

    run(story)


def test_a_defect_where_markers_are_written_leaves_nothing_hanging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(bureau: Bureau) -> None:
        bureau.partitions.defects = 3
        me = await bureau.init()
        await bureau.add(me, A)
        await bureau.end(me)
        await until(bureau, S.COMPLETE_COMMIT)

    with caplog.at_level(logging.ERROR):
        run(story)
    assert caplog.text.count("a defect where markers are written") == 3


def test_no_marker_is_written_before_the_decision_is_committed() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await bureau.add(me, A)
        bureau.log.hold = True
        ending = asyncio.ensure_future(bureau.end(me))
        await asyncio.sleep(5)
        assert bureau.partitions.written == []
        assert not ending.done()
        bureau.log.release()
        assert await ending == (1000, 1)
        await asyncio.sleep(5)
        assert len(bureau.partitions.written) == 1
        bureau.log.hold = False
        bureau.log.release()
        await until(bureau, S.COMPLETE_COMMIT)

    run(story)


def test_a_decision_that_is_not_committed_was_never_taken() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        await bureau.add(me, A)
        bureau.log.hold = True
        ending = asyncio.ensure_future(bureau.end(me))
        await asyncio.sleep(1)
        bureau.log.hold = False
        bureau.log.lose()
        assert await refused(_awaited(ending)) is ErrorCode.not_coordinator
        await bureau.in_office()
        assert await bureau.end(me, committed=False) == (1000, 1)
        await until(bureau, S.COMPLETE_ABORT)
        assert [marker.committed for marker, _ in bureau.partitions.written] == [False]

    run(story)


# --- office --------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_prepared_is_finished_by_the_next_coordinator(committed: bool) -> None:
    async def story(bureau: Bureau) -> None:
        bureau.partitions.trouble = lambda _: ErrorCode.not_leader_or_follower
        me = await bureau.init()
        await bureau.add(me, A)
        await bureau.end(me, committed=committed)
        bureau.coordinator.resign(0)
        assert await refused(bureau.describe()) is ErrorCode.not_coordinator
        bureau.partitions.trouble = lambda _: ErrorCode.none
        await asyncio.sleep(30)
        assert bureau.partitions.written == [], "whoever has resigned writes no markers"
        await bureau.elect()
        await until(bureau, S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
        ((marker, _),) = bureau.partitions.written
        assert (marker.committed, marker.coordinator_epoch, marker.epoch) == (committed, 2, 1)
        assert await bureau.end(me, committed=committed) == (1000, 1), "it asks again"

    run(story)


def test_a_coordinator_of_old_writes_nothing_into_a_new_term() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.partitions.slowness_s = lambda: 10.0
        me = await bureau.init()
        await bureau.add(me, A)
        following = await bureau.end(me)
        await asyncio.sleep(1)
        bureau.partitions.slowness_s = lambda: 0.0
        await bureau.elect()
        await until(bureau, S.COMPLETE_COMMIT)
        await bureau.add(following, A)
        before = bureau.log.end_offset
        await asyncio.sleep(20)
        assert bureau.log.end_offset == before
        assert len(bureau.partitions.written) == 1
        assert await bureau.state() is S.ONGOING

    run(story)


def test_a_shard_that_is_loaded_anew_goes_on_with_its_markers() -> None:
    async def story(bureau: Bureau) -> None:
        names = ("x", "y", "z")
        owners = {name: await bureau.init(name) for name in names}
        for name, me in owners.items():
            await bureau.add(me, A, name=name)
        for name, me in owners.items():
            await bureau.end(me, name=name)
        bureau.log.refuses = True  # the record that one is complete can not be written
        await asyncio.sleep(60)
        assert len(bureau.partitions.written) < 200, "what can not be written is not hurried"
        bureau.log.refuses = False
        await asyncio.sleep(5)
        for name in names:
            assert await bureau.state(name) is S.COMPLETE_COMMIT
        assert {marker.committed for marker, _ in bureau.partitions.written} == {True}

    run(story)


def test_a_stopped_coordinator_leaves_no_task_behind() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.partitions.trouble = lambda _: ErrorCode.not_leader_or_follower
        me = await bureau.init()
        await bureau.add(me, A)
        await bureau.end(me)
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) > 1
        bureau.coordinator.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(story)


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_nobody_ends_is_aborted(version: int) -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init(timeout_ms=30_000)
        await bureau.add(me, A, version=version)
        await asyncio.sleep(29)
        await bureau.add(me, B, version=version)
        assert await bureau.state() is S.ONGOING
        await asyncio.sleep(12)
        assert await bureau.state() is S.COMPLETE_ABORT
        assert {partition for _, partition in bureau.partitions.written} == {A, B}
        assert (await bureau.describe()).producer == (1000, 1)
        assert await refused(bureau.add(me, A)) is ErrorCode.producer_fenced
        assert await refused(bureau.end(me, version=0)) is ErrorCode.producer_fenced
        assert await refused(bureau.end(me)) is ErrorCode.invalid_txn_state
        assert await bureau.end(me, committed=False) == (1000, 1)
        assert await bureau.init(claimed=me) == (1000, 1)

    run(story)


def test_its_time_runs_on_while_the_coordinator_changes() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init(timeout_ms=30_000)
        await bureau.add(me, A)
        await asyncio.sleep(25)
        await bureau.elect()
        await asyncio.sleep(16)
        assert await bureau.state() is S.COMPLETE_ABORT

    run(story)


def test_a_coordinator_without_open_transactions_looks_at_nothing() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init(timeout_ms=1000)
        await bureau.add(me, A)
        following = await bureau.end(me)
        await asyncio.sleep(100)
        await bureau.add(following, A)
        await asyncio.sleep(15)
        assert await bureau.state() is S.COMPLETE_ABORT

    run(story)


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    async def story(bureau: Bureau) -> None:
        me = await bureau.init()
        open_one = await bureau.init("open", timeout_ms=900_000)
        await asyncio.sleep(30)
        await bureau.add(open_one, A, name="open")
        await asyncio.sleep(40)
        assert await refused(bureau.describe()) is ErrorCode.transactional_id_not_found
        assert await refused(bureau.end(me)) is ErrorCode.invalid_producer_id_mapping
        assert await bureau.state("open") is S.ONGOING
        await bureau.elect()
        assert await refused(bureau.describe()) is ErrorCode.transactional_id_not_found
        assert await bureau.init(claimed=me) == (1002, 0)

    run(story, FORGETFUL)


def test_many_ids_are_forgotten_a_thousand_at_a_time() -> None:
    async def story(bureau: Bureau) -> None:
        for number in range(2500):
            await bureau.init(f"id {number}")
        await asyncio.sleep(70)
        assert await settled(bureau.coordinator.list()) == []

    run(story, FORGETFUL)


# --- looking -------------------------------------------------------------------------------------


def test_what_is_listed_and_described() -> None:
    async def story(bureau: Bureau) -> None:
        assert await settled(bureau.coordinator.list()) == []
        me = await bureau.init(timeout_ms=5000)
        other = await bureau.init("y")
        await asyncio.sleep(1)
        await bureau.add(me, B, A)
        described = await bureau.describe()
        assert (described.state, described.timeout_ms) == (S.ONGOING, 5000)
        assert (described.producer, described.partitions) == (me, (A, B))
        assert described.start_ms > WALL_MS
        assert await settled(bureau.coordinator.list()) == [
            TransactionListing(
                transactional_id="x",
                producer_id=me.producer_id,
                state=S.ONGOING,
                start_ms=described.start_ms,
            ),
            TransactionListing(
                transactional_id="y", producer_id=other.producer_id, state=S.EMPTY, start_ms=-1
            ),
        ]
        assert await refused(bureau.describe("z")) is ErrorCode.transactional_id_not_found
        assert await refused(bureau.describe("")) is ErrorCode.invalid_request
        assert S.PREPARE_EPOCH_FENCE.title == "PrepareEpochFence"

    run(story)


def test_a_list_waits_until_what_it_tells_of_is_committed() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.log.hold = True
        making = asyncio.ensure_future(bureau.init())
        await asyncio.sleep(1)
        listing = bureau.coordinator.list()
        assert isinstance(listing, asyncio.Future)
        bureau.log.release()
        assert [row.transactional_id for row in await listing] == ["x"]
        await making

    run(story)


def test_there_is_no_list_while_anything_is_loaded() -> None:
    async def story(bureau: Bureau) -> None:
        bureau.log.unreadable = 1
        bureau.coordinator.elect(0, bureau.log)
        with pytest.raises(KafkaError) as loading:
            bureau.coordinator.list()
        assert loading.value.code is ErrorCode.coordinator_load_in_progress

    run(story)
