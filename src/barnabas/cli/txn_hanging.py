"""Transactions that hang: open in a partition, while no coordinator knows that they are there.

They hold back everybody who reads only what is committed, for ever, since nobody will end them.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.brokers import error_name
from barnabas.cli.txn_brokers import Filters, OpenProducer, Partition, Transaction, TxnBrokers
from barnabas.model.errors import BarnabasError, ErrorCode

_AGAIN_S: Final = 0.2
_PATIENCE_S: Final = 30.0
_BUSY: Final = (
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
)


@dataclass(frozen=True, slots=True)
class Hanging:
    """An open transaction that nobody will end, and whose it was as far as that is known."""

    producer: OpenProducer
    transactional_id: str | None


def hanging(brokers: TxnBrokers, longer_than_ms: int) -> list[Hanging]:
    """Those that have stood open for so long, by the producer's last record there."""
    now_ms = time.time() * 1000
    suspects = [
        each for each in brokers.open_producers() if now_ms - each.last_ms >= longer_than_ms
    ]
    if not suspects:
        return []
    owners = _owners(brokers, suspects)
    return [
        Hanging(each, owner.transactional_id if owner else None)
        for each in suspects
        for owner in [owners.get(each.producer_id)]
        if owner is None or each.partition not in owner.partitions
    ]


def _owners(brokers: TxnBrokers, suspects: list[OpenProducer]) -> dict[int, Transaction]:
    ids = tuple(sorted({each.producer_id for each in suspects}))
    listed = brokers.transactions(Filters(producer_ids=ids))
    described = brokers.describe(each.transactional_id for each in listed)
    return {each.producer_id: each for each in described.values()}


def abort_in_partition(
    brokers: TxnBrokers, partition: Partition, producer_id: int | None
) -> OpenProducer:
    """End what is open in a partition; with several, `producer_id` says whose."""
    where = f"{partition[0]}-{partition[1]}"
    opened = brokers.open_producers(partition)
    chosen = [each for each in opened if producer_id in (None, each.producer_id)]
    if not chosen:
        whose = "" if producer_id is None else f" of producer {producer_id}"
        raise BarnabasError(f"No transaction{whose} is open in {where}: there is nothing to abort.")
    if len(chosen) > 1:
        ids = ", ".join(str(each.producer_id) for each in chosen)
        raise BarnabasError(
            f"{len(chosen)} transactions are open in {where}: say which with --producer-id, of "
            f"{ids}."
        )
    code = brokers.leader_of(partition).abort_in(chosen[0])
    if code is not ErrorCode.none:
        raise BarnabasError(f"Abort in {where}: the broker refuses it ({error_name(code)}).")
    return chosen[0]


def abort_transaction(brokers: TxnBrokers, transactional_id: str) -> Transaction:
    """Take the id from its owner, which aborts what is open; how it was before that."""
    found = brokers.describe([transactional_id]).get(transactional_id)
    if found is None:
        raise BarnabasError(
            f"There is no transactional id {transactional_id}: `barnabas txn list` shows those "
            "there are."
        )
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        code: Any = brokers.by_id[found.coordinator].fence(transactional_id)
        if code is ErrorCode.none:
            return found
        if code not in _BUSY or time.monotonic() > deadline:
            raise BarnabasError(
                f"Abort of {transactional_id}: the broker refuses it ({error_name(code)})."
            )
        time.sleep(_AGAIN_S)
