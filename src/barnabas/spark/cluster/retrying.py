"""When to ask again, how long to wait before, and when to give up: the one place that knows.

An attempt says what went wrong by raising: OSError or DecodeError for a connection that is lost,
KafkaError for an error code. Whoever hands an attempt in promises that it may be repeated.
"""

import logging
import random
import time
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.spark.errors import FencedError, NotAnsweredError, SparkJobError

T = TypeVar("T")

ASKED_AGAIN: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.eligible_leaders_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.kafka_storage_error,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.unstable_offset_commit,
        ErrorCode.throttling_quota_exceeded,
        ErrorCode.broker_not_available,
        ErrorCode.rebootstrap_required,
    }
)
"""They pass by themselves: a leader is elected, a coordinator loads, a marker is written."""

_TAKEN_OVER: Final = (
    "a newer run of the same query has taken over, or the transaction was open for longer than "
    "its timeout"
)
FENCED: Final = {
    ErrorCode.producer_fenced: _TAKEN_OVER,
    ErrorCode.invalid_producer_epoch: _TAKEN_OVER,
    ErrorCode.invalid_producer_id_mapping: (
        "the transactional id belongs to another producer by now, or was idle for so long "
        "(transactional.id.expiration.ms) that the broker has forgotten it"
    ),
}
"""The producer's id and epoch are no longer the ones that may write."""

_SENTENCES: Final = {
    ErrorCode.topic_authorization_failed: "this user may not use the topic: ask for an ACL",
    ErrorCode.group_authorization_failed: "this user may not use the group: ask for an ACL",
    ErrorCode.cluster_authorization_failed: "this user may not do that: ask for an ACL",
    ErrorCode.transactional_id_authorization_failed: (
        "this user may not use the transactional id: ask for an ACL"
    ),
    ErrorCode.unsupported_version: "the broker is too old for it: Kafka 2.5 is needed at least",
    ErrorCode.invalid_transaction_timeout: (
        "the transaction's timeout is more than the broker allows: lower kafka.transaction."
        "timeout.ms, or raise the broker's transaction.max.timeout.ms"
    ),
    ErrorCode.invalid_topic_exception: (
        "that is no name for a topic: letters, digits, '.', '_' and '-' make one"
    ),
    ErrorCode.invalid_group_id: "that is no name for a group: give it a kafka.group.id",
    ErrorCode.offset_metadata_too_large: (
        "what is kept beside an offset is longer than the broker's offset.metadata.max.bytes"
    ),
    ErrorCode.unknown_member_id: (
        "running consumers are members of the group: give the query a kafka.group.id of its own"
    ),
    ErrorCode.illegal_generation: (
        "running consumers are members of the group: give the query a kafka.group.id of its own"
    ),
    ErrorCode.rebalance_in_progress: (
        "running consumers are members of the group: give the query a kafka.group.id of its own"
    ),
    ErrorCode.invalid_txn_state: (
        "the transaction is not in a state for it: it has ended already, or nothing is in it"
    ),
    ErrorCode.transaction_abortable: (
        "the transaction can only be aborted now: the batch must be written again"
    ),
}
"""What to do about a code that asking again does not mend."""

_FIRST_WAIT_S: Final = 0.02
"""A transaction's markers take about this long, and every micro-batch may wait for them."""

_WAIT_MAX_S: Final = 1.0
_SILENT_S: Final = 5.0
"""A wait that is longer is worth a line in the log: a wrong address would look like a hang."""

_log = logging.getLogger("barnabas.spark")


class Patience:
    """One piece of work that is tried until it is done, or until its time is over."""

    def __init__(self, what: str, limit_s: float) -> None:
        """`what` begins the sentence of every error: "Asking orders-3 for its end"."""
        self._what = what
        self._limit_s = limit_s
        self.renew()

    def renew(self) -> None:
        """Something went well: the time begins anew."""
        self._since = time.monotonic()
        self._wait_s = _FIRST_WAIT_S
        self._logged = False

    def wait_after(self, problem: Exception) -> None:
        """Sleep, for longer every time; or raise SparkJobError where waiting does not help."""
        if isinstance(problem, KafkaError) and problem.code not in ASKED_AGAIN:
            refuse(self._what, problem)
        waited_s = time.monotonic() - self._since
        if waited_s >= self._limit_s:
            raise NotAnsweredError(
                f"{self._what} was tried for {waited_s:.0f} s (kafka.default.api.timeout.ms): "
                f"{said(problem)}."
            ) from problem
        if waited_s >= _SILENT_S and not self._logged:
            self._logged = True
            _log.warning(
                "%s: %s; trying for %.0f s more.",
                self._what,
                said(problem),
                self._limit_s - waited_s,
            )
        pause_s = self._wait_s * random.uniform(0.8, 1.2)
        time.sleep(min(pause_s, max(self._limit_s - waited_s, 0)))
        self._wait_s = min(self._wait_s * 2, _WAIT_MAX_S)


def retrying(
    what: str, attempt: Callable[[], T], *, limit_s: float, between: Callable[[], None]
) -> T:
    """What `attempt` returns, as soon as it does; `between` forgets what may have led it astray."""
    patience = Patience(what, limit_s)
    while True:
        try:
            return attempt()
        except (OSError, DecodeError, KafkaError) as problem:
            patience.wait_after(problem)
            between()


def refuse(what: str, problem: KafkaError) -> NoReturn:
    """The sentence for a code that asking again does not mend."""
    if problem.code in FENCED:
        raise FencedError(
            f"{what} is refused ({name_of(problem.code)}): {FENCED[problem.code]}. One query at a "
            "time may write under one checkpoint; if this is the one, start it again."
        ) from problem
    raise SparkJobError(f"{what} is refused: {said(problem)}.") from problem


def said(problem: Exception) -> str:
    """The problem in a few words, for the middle of a sentence."""
    if isinstance(problem, KafkaError):
        advice = _SENTENCES.get(problem.code) or problem.message
        name = name_of(problem.code)
        return f"{name}, {advice}" if advice else name
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, ConnectionResetError):
        return "the broker hangs up, as one does that wants SASL"
    return str(problem) or type(problem).__name__


def name_of(code: ErrorCode) -> str:
    """In Kafka's spelling."""
    return code.name.upper()


def check(code: ErrorCode, message: str | None = None) -> None:
    """KafkaError unless all is well."""
    if code is not ErrorCode.none:
        raise KafkaError(code, message or "")
