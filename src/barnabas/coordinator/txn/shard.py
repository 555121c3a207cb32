"""All transactional ids of one partition of `__transaction_state`.

What is to be done elsewhere once a turn is committed (markers to write, a producer id to take) is
left in the outbox, as an answer to nobody who asked.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from barnabas.cluster.image import Topic
from barnabas.config.transaction_settings import TransactionSettings
from barnabas.coordinator.runtime.turn import PARKED, Parked, TimerKey, Turn, Waiter
from barnabas.coordinator.txn import refusals, transitions
from barnabas.coordinator.txn.asks import (
    AddPartitions,
    DescribedTransaction,
    EndTransaction,
    InitProducer,
    TransactionListing,
    TransactionState,
)
from barnabas.coordinator.txn.ending import aborted, ended
from barnabas.coordinator.txn.init import initialized
from barnabas.coordinator.txn.transaction import (
    Forgotten,
    NeedsProducerId,
    Record,
    Transaction,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    NO_PRODUCER_ID,
    NOBODY,
    ProducerIdentity,
)

TransactionTurn: TypeAlias = Turn[Record]

_TIMED_OUT: Final = TimerKey("timed-out", "")
_EXPIRED: Final = TimerKey("expired", "")

_FORGOTTEN_AT_ONCE: Final = 1000
"""Ids in one turn: others have theirs in between."""
_GO_ON_MS: Final = 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """For the outbox: it is certain how this transaction ends; its partitions have to be told."""

    transaction: Transaction
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """For the outbox: this transaction can be aborted as soon as there is a new producer id."""

    transaction: Transaction


Errand = Prepared | TimedOut


class TransactionShard:
    """The ids by name, and those of them with an open transaction."""

    def __init__(self, settings: Callable[[], TransactionSettings], outbox: Waiter) -> None:
        self._settings = settings
        self._outbox = outbox
        self._transactions: dict[str, Transaction] = {}
        self._ongoing: dict[str, None] = {}
        self._watching = False

    # --- what the runtime asks -----------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """A record that was just decided on, or read back."""
        if isinstance(record, Forgotten):
            self._transactions.pop(record.transactional_id, None)
        else:
            self._transactions[record.transactional_id] = record
            if record.state is TransactionState.ONGOING:
                self._ongoing[record.transactional_id] = None
                return
        self._ongoing.pop(record.transactional_id, None)

    def loaded(self, turn: TransactionTurn) -> None:
        """Whatever was prepared is brought to its end."""
        for transaction in self._transactions.values():
            if transaction.is_ending:
                turn.reply(self._outbox, Prepared(transaction, turn.leader_epoch))
        if self._ongoing:
            self._watch(turn)
        turn.schedule(_EXPIRED, self._settings().expired_interval_ms)

    def fire(self, turn: TransactionTurn, key: TimerKey) -> None:
        """A timer."""
        if key == _TIMED_OUT:
            self._abort_all_timed_out(turn)
        else:
            self._forget_expired(turn)

    def topics_changed(self, turn: TransactionTurn, topics: Collection[Topic]) -> None:
        """Nothing depends on it."""

    def topics_deleted(self, turn: TransactionTurn, topics: Collection[Topic]) -> None:
        """Whoever writes the markers leaves out what is not there any more."""

    # --- producers -----------------------------------------------------------------------------

    def init(
        self, turn: TransactionTurn, waiter: Waiter, ask: InitProducer, new_producer_id: int
    ) -> ProducerIdentity | NeedsProducerId | Parked:
        """InitProducerId. An open transaction is aborted first: the owner has to ask again."""
        current = self._transactions.get(ask.transactional_id)
        following = initialized(current, ask, new_producer_id, turn.now_ms)
        if isinstance(following, NeedsProducerId):
            return following
        if not following.is_ending:
            turn.write(following)
            return following.producer
        self._prepare(turn, following)
        turn.refuse(waiter, refusals.concurrent(following))
        return PARKED

    # --- transactions --------------------------------------------------------------------------

    def add_partitions(self, turn: TransactionTurn, ask: AddPartitions) -> None:
        """AddPartitionsToTxn: the first ones begin the transaction."""
        current = self._known(ask.transactional_id)
        if current.is_ending:
            # First of all: the producer may know of an identity already that is not in force yet.
            raise refusals.concurrent(current)
        _check_owner(current, ask.producer)
        if current.is_idle or not current.partitions.issuperset(ask.partitions):
            turn.write(
                transitions.with_partitions(
                    current, ask.partitions, ask.transaction_version, turn.now_ms
                )
            )
            self._watch(turn)

    def verify_partitions(self, ask: AddPartitions) -> Mapping[TopicPartition, ErrorCode]:
        """Which of the partitions are in the transaction."""
        current = self._known(ask.transactional_id)
        _check_owner(current, ask.producer)
        if current.is_ending:
            raise refusals.concurrent(current)
        return {
            each: ErrorCode.none if each in current.partitions else ErrorCode.transaction_abortable
            for each in ask.partitions
        }

    def end(
        self, turn: TransactionTurn, ask: EndTransaction, new_producer_id: int
    ) -> ProducerIdentity | NeedsProducerId:
        """EndTxn: the identity for the next transaction, if it changes with every one."""
        current = self._known(ask.transactional_id)
        following = ended(current, ask, new_producer_id, turn.now_ms)
        if isinstance(following, NeedsProducerId):
            return following
        if following is not None:
            self._prepare(turn, following)
        if ask.transaction_version < BUMPED_TRANSACTIONS:
            return NOBODY
        return current.producer if following is None else following.following

    def _prepare(self, turn: TransactionTurn, transaction: Transaction) -> None:
        turn.write(transaction)
        turn.reply(self._outbox, Prepared(transaction, turn.leader_epoch))

    def awaits_markers(self, prepared: Transaction) -> bool:
        """Whether it is still this transaction's turn to end (and not that of the same one, as a
        shard has read it back that was loaded since: it has its own markers written)."""
        return self._transactions.get(prepared.transactional_id) is prepared

    def complete(self, turn: TransactionTurn, prepared: Transaction) -> None:
        """Every partition of a prepared transaction has its marker."""
        if self.awaits_markers(prepared):
            turn.write(transitions.completed(prepared, turn.now_ms))

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise refusals.unknown(transactional_id)
        return transaction

    # --- looking -------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """DescribeTransactions."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.transactional_id_not_found)
        return DescribedTransaction(
            transactional_id=transactional_id,
            state=transaction.state,
            timeout_ms=transaction.timeout_ms,
            start_ms=transaction.start_ms,
            producer=transaction.producer,
            partitions=tuple(sorted(transaction.partitions)),
        )

    def listing(self) -> list[TransactionListing]:
        """ListTransactions."""
        return [
            TransactionListing(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.state,
                start_ms=each.start_ms,
            )
            for each in self._transactions.values()
        ]

    # --- what nobody ends, and what nobody uses ------------------------------------------------

    def _watch(self, turn: TransactionTurn) -> None:
        """Look again while there are open transactions, and only then."""
        if not self._watching:
            self._watching = True
            turn.schedule(_TIMED_OUT, self._settings().timed_out_interval_ms)

    def _abort_all_timed_out(self, turn: TransactionTurn) -> None:
        self._watching = False
        for transactional_id in tuple(self._ongoing):
            transaction = self._transactions[transactional_id]
            if transaction.times_out_before(turn.now_ms):
                self.abort_timed_out(turn, transaction, NO_PRODUCER_ID)
        if self._ongoing:
            self._watch(turn)

    def abort_timed_out(
        self, turn: TransactionTurn, transaction: Transaction, new_producer_id: int
    ) -> None:
        """Nobody has ended it in time. Without the producer id that it may need, the outbox is
        told; whatever becomes of that, it is looked at again with all the others."""
        if self._transactions.get(transaction.transactional_id) is not transaction:
            return  # It has gone on, meanwhile.
        following = aborted(transaction, new_producer_id, turn.now_ms)
        if isinstance(following, NeedsProducerId):
            turn.reply(self._outbox, TimedOut(transaction))
        else:
            self._prepare(turn, following)

    def _forget_expired(self, turn: TransactionTurn) -> None:
        settings = self._settings()
        before_ms = turn.now_ms - settings.id_expiration_ms
        expired = (
            transactional_id
            for transactional_id, each in self._transactions.items()
            if each.is_idle and each.last_update_ms <= before_ms
        )
        forgotten = list(islice(expired, _FORGOTTEN_AT_ONCE))
        for transactional_id in forgotten:
            turn.write(Forgotten(transactional_id))
        more = len(forgotten) == _FORGOTTEN_AT_ONCE
        turn.schedule(_EXPIRED, _GO_ON_MS if more else settings.expired_interval_ms)


def _check_owner(transaction: Transaction, producer: ProducerIdentity) -> None:
    if producer.producer_id != transaction.producer_id:
        raise refusals.mapping(transaction)
    if producer.epoch != transaction.epoch:
        raise refusals.fenced(transaction, producer.epoch)
