"""EndTxn in every state, of either generation, by whomever."""

from dataclasses import replace

import pytest
from tests.coordinator.txn.values import (
    BEGUN_MS,
    EPOCH,
    NEW_PRODUCER,
    NOW_MS,
    OTHER_PRODUCER,
    PARTITIONS,
    PRODUCER,
    STORED_STATES,
    S,
    transaction,
)

from barnabas.coordinator.txn.asks import EndTransaction, TransactionState
from barnabas.coordinator.txn.ending import aborted, ended
from barnabas.coordinator.txn.transaction import (
    EPOCH_MAX,
    NEEDS_PRODUCER_ID,
    NeedsProducerId,
    Transaction,
)
from barnabas.coordinator.txn.transitions import completed
from barnabas.model.errors import KafkaError
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    CLASSIC_TRANSACTIONS,
    NO_PRODUCER_ID,
    ProducerIdentity,
)

PRESENT, AGAIN, OLDER, FUTURE = EPOCH, EPOCH - 1, EPOCH - 2, EPOCH + 1
FENCED, INVALID, CONCURRENT = "producer_fenced", "invalid_txn_state", "concurrent_transactions"
ENDS, NOTHING = "ends", "nothing to do"

CLASSIC = {
    (S.EMPTY, False): INVALID,
    (S.EMPTY, True): INVALID,
    (S.ONGOING, False): ENDS,
    (S.ONGOING, True): ENDS,
    (S.PREPARE_COMMIT, False): CONCURRENT,
    (S.PREPARE_COMMIT, True): CONCURRENT,
    (S.PREPARE_ABORT, False): CONCURRENT,
    (S.PREPARE_ABORT, True): CONCURRENT,
    (S.COMPLETE_COMMIT, False): INVALID,
    (S.COMPLETE_COMMIT, True): NOTHING,
    (S.COMPLETE_ABORT, False): NOTHING,
    (S.COMPLETE_ABORT, True): INVALID,
}
"""With the present epoch. With any other: fenced."""

BUMPED = {
    (S.EMPTY, False, PRESENT): ENDS,
    (S.EMPTY, False, AGAIN): FENCED,
    (S.EMPTY, True, PRESENT): INVALID,
    (S.EMPTY, True, AGAIN): FENCED,
    (S.ONGOING, False, PRESENT): ENDS,
    (S.ONGOING, False, AGAIN): FENCED,
    (S.ONGOING, True, PRESENT): ENDS,
    (S.ONGOING, True, AGAIN): FENCED,
    (S.COMPLETE_COMMIT, False, PRESENT): ENDS,
    (S.COMPLETE_COMMIT, False, AGAIN): INVALID,
    (S.COMPLETE_COMMIT, True, PRESENT): INVALID,
    (S.COMPLETE_COMMIT, True, AGAIN): NOTHING,
    (S.COMPLETE_ABORT, False, PRESENT): ENDS,
    (S.COMPLETE_ABORT, False, AGAIN): NOTHING,
    (S.COMPLETE_ABORT, True, PRESENT): INVALID,
    (S.COMPLETE_ABORT, True, AGAIN): INVALID,
}
"""While markers are written: concurrent, whatever the epoch. Else, with others: fenced."""


def ask(
    committed: bool,
    epoch: int = EPOCH,
    version: int = BUMPED_TRANSACTIONS,
    producer_id: int = PRODUCER,
) -> EndTransaction:
    return EndTransaction(
        transactional_id="x",
        producer=ProducerIdentity(producer_id, epoch),
        committed=committed,
        transaction_version=version,
    )


def outcome(current: Transaction, request: EndTransaction) -> str:
    try:
        following = ended(current, request, NO_PRODUCER_ID, NOW_MS)
    except KafkaError as error:
        return error.code.name
    if following is None:
        return NOTHING
    assert isinstance(following, Transaction)
    assert following.state is (S.PREPARE_COMMIT if request.committed else S.PREPARE_ABORT)
    return ENDS


@pytest.mark.parametrize("epoch", [PRESENT, AGAIN, OLDER, FUTURE])
@pytest.mark.parametrize(("state", "committed"), CLASSIC)
def test_the_classic_generation(state: TransactionState, committed: bool, epoch: int) -> None:
    expected = CLASSIC[state, committed] if epoch == PRESENT else FENCED
    for version in (CLASSIC_TRANSACTIONS, 1):
        assert outcome(transaction(state), ask(committed, epoch, version)) == expected


@pytest.mark.parametrize("epoch", [PRESENT, AGAIN, OLDER, FUTURE])
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STORED_STATES)
def test_the_bumped_generation(state: TransactionState, committed: bool, epoch: int) -> None:
    expected = (
        CONCURRENT
        if state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
        else BUMPED.get((state, committed, epoch), FENCED)
    )
    assert outcome(transaction(state), ask(committed, epoch)) == expected


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STORED_STATES)
def test_another_producer(state: TransactionState, committed: bool) -> None:
    classic = ask(committed, EPOCH, CLASSIC_TRANSACTIONS, OTHER_PRODUCER)
    assert outcome(transaction(state), classic) == "invalid_producer_id_mapping"
    bumped = ask(committed, EPOCH, BUMPED_TRANSACTIONS, OTHER_PRODUCER)
    ending = state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
    assert outcome(transaction(state), bumped) == (
        CONCURRENT if ending else "invalid_producer_id_mapping"
    )


def test_what_a_classic_end_changes() -> None:
    current = transaction(S.ONGOING, last_epoch=3, version=CLASSIC_TRANSACTIONS)
    following = ended(current, ask(True, EPOCH, CLASSIC_TRANSACTIONS), NO_PRODUCER_ID, NOW_MS)
    assert following == replace(current, state=S.PREPARE_COMMIT, last_update_ms=NOW_MS)
    assert completed(following, NOW_MS + 1) == replace(
        following,
        state=S.COMPLETE_COMMIT,
        partitions=frozenset(),
        last_update_ms=NOW_MS + 1,
    )


def test_what_a_bumped_end_changes() -> None:
    current = transaction(S.ONGOING)
    following = ended(current, ask(False), NO_PRODUCER_ID, NOW_MS)
    assert following == replace(
        current,
        state=S.PREPARE_ABORT,
        epoch=EPOCH + 1,
        last_epoch=EPOCH,
        last_update_ms=NOW_MS,
        version=BUMPED_TRANSACTIONS,
    )
    marker = following.marker(coordinator_epoch=4)
    assert (marker.producer_id, marker.epoch, marker.coordinator_epoch) == (PRODUCER, EPOCH + 1, 4)
    assert (marker.committed, marker.transaction_version) == (False, BUMPED_TRANSACTIONS)
    assert completed(following, NOW_MS).producer == ProducerIdentity(PRODUCER, EPOCH + 1)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_an_abort_of_nothing_begins_and_ends_now(state: TransactionState) -> None:
    following = ended(transaction(state), ask(False), NO_PRODUCER_ID, NOW_MS)
    assert isinstance(following, Transaction)
    assert following.start_ms == NOW_MS
    assert not following.partitions
    assert completed(following, NOW_MS).state is S.COMPLETE_ABORT


def test_a_transaction_ends_by_the_generation_of_whoever_ends_it() -> None:
    mixed = transaction(S.ONGOING, version=BUMPED_TRANSACTIONS)
    classic = ended(mixed, ask(True, EPOCH, CLASSIC_TRANSACTIONS), NO_PRODUCER_ID, NOW_MS)
    assert isinstance(classic, Transaction)
    assert (classic.epoch, classic.version) == (EPOCH, CLASSIC_TRANSACTIONS)
    bumped = ended(replace(mixed, version=0), ask(True), NO_PRODUCER_ID, NOW_MS)
    assert isinstance(bumped, Transaction)
    assert (bumped.epoch, bumped.version) == (EPOCH + 1, BUMPED_TRANSACTIONS)


# --- the last epoch ------------------------------------------------------------------------------


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    current = transaction(S.ONGOING, epoch=EPOCH_MAX - 1)
    request = ask(True, EPOCH_MAX - 1)
    assert ended(current, request, NO_PRODUCER_ID, NOW_MS) is NEEDS_PRODUCER_ID
    following = ended(current, request, NEW_PRODUCER, NOW_MS)
    assert isinstance(following, Transaction)
    assert following.producer == ProducerIdentity(PRODUCER, EPOCH_MAX)
    assert following.following == ProducerIdentity(NEW_PRODUCER, 0)
    done = completed(following, NOW_MS)
    assert done.producer == ProducerIdentity(NEW_PRODUCER, 0)
    assert (done.previous_producer_id, done.next_producer_id) == (PRODUCER, NO_PRODUCER_ID)
    assert done.last_epoch == EPOCH_MAX - 1

    assert outcome(done, request) == NOTHING
    assert outcome(done, ask(False, EPOCH_MAX - 1)) == INVALID
    assert outcome(done, ask(True, EPOCH_MAX - 2)) == "invalid_producer_id_mapping"
    opened = replace(done, state=S.ONGOING, partitions=PARTITIONS)
    assert outcome(opened, request) == FENCED


def test_with_the_last_epoch_the_classic_generation_needs_nothing_new() -> None:
    current = transaction(S.ONGOING, epoch=EPOCH_MAX - 1)
    request = ask(True, EPOCH_MAX - 1, CLASSIC_TRANSACTIONS)
    following = ended(current, request, NO_PRODUCER_ID, NOW_MS)
    assert isinstance(following, Transaction)
    assert following.producer == ProducerIdentity(PRODUCER, EPOCH_MAX - 1)


def test_a_producer_id_that_is_not_needed_any_more_is_not_used() -> None:
    following = ended(transaction(S.ONGOING), ask(True), NEW_PRODUCER, NOW_MS)
    assert isinstance(following, Transaction)
    assert following.next_producer_id == NO_PRODUCER_ID


# --- what nobody ends ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [CLASSIC_TRANSACTIONS, BUMPED_TRANSACTIONS])
def test_what_is_aborted_for_its_producer_fences_it(version: int) -> None:
    following = aborted(transaction(S.ONGOING, version=version), NO_PRODUCER_ID, NOW_MS)
    assert not isinstance(following, NeedsProducerId)
    assert following.state is S.PREPARE_ABORT
    assert following.producer == ProducerIdentity(PRODUCER, EPOCH + 1)
    assert following.start_ms == BEGUN_MS
    done = completed(following, NOW_MS)
    assert outcome(done, ask(True, EPOCH, CLASSIC_TRANSACTIONS)) == FENCED
    assert outcome(done, ask(True, EPOCH)) == INVALID
    assert outcome(done, ask(False, EPOCH)) == NOTHING


def test_at_the_highest_epoch_an_abort_still_goes_through() -> None:
    broken = transaction(S.ONGOING, epoch=EPOCH_MAX)
    assert aborted(broken, NO_PRODUCER_ID, NOW_MS) is NEEDS_PRODUCER_ID
    following = aborted(broken, NEW_PRODUCER, NOW_MS)
    assert isinstance(following, Transaction)
    assert following.epoch == EPOCH_MAX
    assert completed(following, NOW_MS).producer == ProducerIdentity(NEW_PRODUCER, 0)
