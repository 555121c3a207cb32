"""The nouns of transactions that several rooms speak of."""

from dataclasses import dataclass
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1

CLASSIC_TRANSACTIONS: Final = 0
"""A client that adds every partition by a request of its own (versions 0 and 1 differ only in what
is stored about them)."""
BUMPED_TRANSACTIONS: Final = 2
"""KIP-890: every transaction has an epoch of its own, and Produce adds its partitions."""


class ProducerIdentity(NamedTuple):
    """A producer id and the epoch that its owner has of it now."""

    producer_id: int
    epoch: int


NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The end of one producer's transaction, to be written into each of its partitions."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """A coordinator with a higher one has replaced those with lower ones (zombies are fenced)."""
    committed: bool
    transaction_version: int = CLASSIC_TRANSACTIONS
    """From 2 on the marker's epoch is above that of the transaction's batches."""
