"""InitProducerId: new ids, claims and their repetition, exhausted epochs, open transactions."""

import pytest
from tests.coordinator.txn.values import (
    EPOCH,
    NEW_PRODUCER,
    NOW_MS,
    OTHER_PRODUCER,
    PRODUCER,
    S,
    refused,
    transaction,
)

from barnabas.config.transaction_settings import TransactionSettings
from barnabas.coordinator.txn.asks import InitProducer, TransactionState
from barnabas.coordinator.txn.init import check_init, initialized
from barnabas.coordinator.txn.transaction import (
    EPOCH_MAX,
    NEEDS_PRODUCER_ID,
    NOT_BEGUN,
    TIMEOUT_NEVER_MS,
    Transaction,
)
from barnabas.model.transactions import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NOBODY,
    ProducerIdentity,
)

IDLE = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)


def ask(claimed: ProducerIdentity = NOBODY, timeout_ms: int = 1000) -> InitProducer:
    return InitProducer(transactional_id="x", timeout_ms=timeout_ms, claimed=claimed)


def claim(epoch: int, producer_id: int = PRODUCER) -> InitProducer:
    return ask(ProducerIdentity(producer_id, epoch))


def init(
    current: Transaction | None, request: InitProducer, new_producer_id: int = NO_PRODUCER_ID
) -> Transaction:
    following = initialized(current, request, new_producer_id, NOW_MS)
    assert isinstance(following, Transaction), "it needs a producer id"
    return following


# --- without knowing the id ----------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_beyond_the_limits_is_refused(timeout_ms: int) -> None:
    code = refused(check_init, ask(timeout_ms=timeout_ms), TransactionSettings())
    assert code == "invalid_transaction_timeout"


def test_any_other_timeout_is_taken() -> None:
    check_init(ask(timeout_ms=1), TransactionSettings())
    check_init(ask(timeout_ms=900_000), TransactionSettings())


# --- a new id ------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [ask(), claim(3), claim(EPOCH_MAX - 1)])
def test_a_new_id_gets_a_new_producer(request_: InitProducer) -> None:
    assert initialized(None, request_, NO_PRODUCER_ID, NOW_MS) is NEEDS_PRODUCER_ID
    made = init(None, request_, NEW_PRODUCER)
    assert made == Transaction(
        transactional_id="x",
        producer_id=NEW_PRODUCER,
        previous_producer_id=NEW_PRODUCER,
        epoch=0,
        timeout_ms=1000,
        state=S.EMPTY,
        last_update_ms=NOW_MS,
    )


def test_what_a_kafka_has_left_for_two_phase_commit_never_times_out() -> None:
    left = transaction(S.ONGOING, timeout_ms=TIMEOUT_NEVER_MS)
    assert not left.times_out_before(2**62)
    assert transaction(S.ONGOING).times_out_before(2**62)


# --- an id in use --------------------------------------------------------------------------------


@pytest.mark.parametrize("state", IDLE)
def test_a_new_owner_fences_the_one_before(state: TransactionState) -> None:
    made = init(transaction(state, last_epoch=EPOCH - 1), ask(timeout_ms=77))
    assert made.producer == ProducerIdentity(PRODUCER, EPOCH + 1)
    assert made.last_epoch == NO_PRODUCER_EPOCH
    assert (made.state, made.timeout_ms, made.start_ms) == (S.EMPTY, 77, NOT_BEGUN)
    assert refused(init, made, claim(EPOCH)) == "producer_fenced"


@pytest.mark.parametrize("state", IDLE)
def test_the_owner_goes_on_after_an_error_and_may_ask_twice(state: TransactionState) -> None:
    made = init(transaction(state), claim(EPOCH))
    assert made.producer == ProducerIdentity(PRODUCER, EPOCH + 1)
    assert init(made, claim(EPOCH)).producer == made.producer
    assert init(made, claim(EPOCH + 1)).producer == ProducerIdentity(PRODUCER, EPOCH + 2)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(
    "request_",
    [
        claim(EPOCH - 2),
        claim(EPOCH + 1),
        claim(0),
        claim(EPOCH, OTHER_PRODUCER),
        claim(EPOCH_MAX - 1, OTHER_PRODUCER),
    ],
)
def test_whoever_is_not_the_owner_is_fenced(
    state: TransactionState, request_: InitProducer
) -> None:
    current = transaction(state, last_epoch=EPOCH - 1)
    assert refused(init, current, request_) == "producer_fenced"


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
@pytest.mark.parametrize("request_", [ask(), claim(EPOCH), claim(0), claim(0, OTHER_PRODUCER)])
def test_while_markers_are_written_everybody_waits(
    state: TransactionState, request_: InitProducer
) -> None:
    assert refused(init, transaction(state), request_) == "concurrent_transactions"


# --- an open transaction -------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [ask(), claim(EPOCH), claim(EPOCH + 7)])
def test_an_open_transaction_is_aborted_first(request_: InitProducer) -> None:
    made = init(transaction(S.ONGOING), request_)
    assert made.state is S.PREPARE_ABORT
    assert made.producer == ProducerIdentity(PRODUCER, EPOCH + 1)


def test_another_producer_does_not_abort_it() -> None:
    current = transaction(S.ONGOING)
    assert refused(init, current, claim(EPOCH, OTHER_PRODUCER)) == "producer_fenced"


def test_an_open_transaction_with_the_last_epoch_needs_a_producer_id() -> None:
    current = transaction(S.ONGOING, epoch=EPOCH_MAX - 1)
    assert initialized(current, ask(), NO_PRODUCER_ID, NOW_MS) is NEEDS_PRODUCER_ID
    assert init(current, ask(), NEW_PRODUCER).following == ProducerIdentity(NEW_PRODUCER, 0)


# --- the last epoch ------------------------------------------------------------------------------


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("request_", [ask(), claim(EPOCH_MAX - 1)])
def test_after_the_last_epoch_comes_a_new_producer(
    state: TransactionState, request_: InitProducer
) -> None:
    current = transaction(state, epoch=EPOCH_MAX - 1)
    assert initialized(current, request_, NO_PRODUCER_ID, NOW_MS) is NEEDS_PRODUCER_ID
    made = init(current, request_, NEW_PRODUCER)
    assert made.producer == ProducerIdentity(NEW_PRODUCER, 0)
    assert made.previous_producer_id == PRODUCER


def test_the_epoch_before_the_last_is_followed_by_the_last() -> None:
    made = init(transaction(S.EMPTY, epoch=EPOCH_MAX - 2), ask())
    assert made.producer == ProducerIdentity(PRODUCER, EPOCH_MAX - 1)


def test_the_owner_that_was_not_told_of_its_new_producer_id_may_ask_again() -> None:
    last = claim(EPOCH_MAX - 1)
    made = init(transaction(S.EMPTY, epoch=EPOCH_MAX - 1), last, NEW_PRODUCER)
    assert init(made, last).producer == ProducerIdentity(NEW_PRODUCER, 0)
    assert refused(init, made, claim(EPOCH_MAX - 2)) == "producer_fenced"


def test_when_somebody_else_has_taken_over_it_may_not() -> None:
    made = init(transaction(S.EMPTY, epoch=EPOCH_MAX - 1), ask(), NEW_PRODUCER)
    assert refused(init, made, claim(EPOCH_MAX - 1)) == "producer_fenced"


def test_the_owner_that_was_not_told_of_the_last_epoch_may_ask_again() -> None:
    made = init(transaction(S.EMPTY, epoch=EPOCH_MAX - 2), claim(EPOCH_MAX - 2))
    assert init(made, claim(EPOCH_MAX - 2)).producer == ProducerIdentity(PRODUCER, EPOCH_MAX - 1)
