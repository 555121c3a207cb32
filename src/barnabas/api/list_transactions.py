"""ListTransactions: v0-2

Behaviour: every transactional id that this broker coordinates, and its state; all filters have to
fit. States are asked for by their exact names, and names that no state has are told. A duration
lets those through that began longer ago, and also those that have not begun: so does Kafka. A
pattern (RE2) must match the whole id.

Version notes: v1 filter by duration. v2 filter by pattern.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.list_transactions.v2.response import TransactionState as Listed

from barnabas.api.context import Call
from barnabas.api.group_answers import Answer, Eventually, answer_one
from barnabas.api.typed import NO_THROTTLE, ProducerId, TransactionalId
from barnabas.coordinator.txn.asks import TransactionListing, TransactionState
from barnabas.model.errors import ErrorCode, KafkaError

_STATES: Final = {state.title: state for state in TransactionState}

Test = Callable[[TransactionListing], bool]


def handle(call: Call, request: ListTransactionsRequest) -> Eventually[ListTransactionsResponse]:
    """Those that the filters let through; an empty filter lets all through."""

    def listed() -> Answer[Sequence[TransactionListing]]:
        return call.services.transactions.list()

    def told(listings: Sequence[TransactionListing]) -> ListTransactionsResponse:
        try:
            tests = _tests(request, call.services.clock.wall_ms())
        except KafkaError as error:
            return _answer(error.code)
        chosen = (each for each in listings if all(test(each) for test in tests))
        unknown = [each for each in request.state_filters if each not in _STATES]
        return _answer(ErrorCode.none, chosen, unknown)

    return answer_one(listed, told, lambda error: _answer(error.code))


def _tests(request: ListTransactionsRequest, now_ms: int) -> list[Test]:
    """One for each filter. Raises INVALID_REGULAR_EXPRESSION."""
    tests: list[Test] = [lambda each: each.state is not TransactionState.DEAD]
    producers = frozenset(request.producer_id_filters)
    if producers:
        tests.append(lambda each: each.producer_id in producers)
    if request.state_filters:
        states = {_STATES[each] for each in request.state_filters if each in _STATES}
        tests.append(lambda each: each.state in states)
    longer_than_ms = request.duration_filter
    if longer_than_ms >= 0:
        tests.append(lambda each: now_ms - each.start_ms > longer_than_ms)
    if request.transactional_id_pattern:
        tests.append(_matches(request.transactional_id_pattern))
    return tests


def _matches(pattern: str) -> Test:
    # Loaded with the first pattern: most brokers never see one.
    from barnabas.coordinator.topic_regex import compile_topic_regex

    regex = compile_topic_regex(pattern)
    return lambda each: regex.matches(each.transactional_id)


def _answer(
    error: ErrorCode, chosen: Iterable[TransactionListing] = (), unknown: Iterable[str] = ()
) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        unknown_state_filters=tuple(dict.fromkeys(unknown)),
        transaction_states=tuple(map(_listed, chosen)),
    )


def _listed(listing: TransactionListing) -> Listed:
    return Listed(
        transactional_id=TransactionalId(listing.transactional_id),
        producer_id=ProducerId(listing.producer_id),
        transaction_state=listing.state.title,
    )
