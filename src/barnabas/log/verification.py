"""Has the coordinator confirmed that a producer's transaction includes this partition? (KIP-890)

The question is asked before the first batch of a transaction is written. The answer may come when
the transaction has ended already: so a guard is given out with the question, which an end of the
transaction takes back. A batch without a valid guard opens no transaction, and none is left open
that its coordinator knows nothing of.
"""

from dataclasses import dataclass
from typing import Final

from barnabas.model import limits
from barnabas.model.transactions import BUMPED_TRANSACTIONS, Marker


class VerificationGuard:
    """Stands for one question to the coordinator; it is valid for as long as it is remembered."""

    __slots__ = ()


VERIFICATION_OFF: Final = VerificationGuard()
"""Valid everywhere: for brokers with `transaction.partition.verification.enable=false`."""

OPEN_ALREADY: Final = VerificationGuard()
"""Valid nowhere, and of no need: the transaction is open."""


@dataclass(slots=True)
class Verification:
    """What is remembered of a producer from the question on until its first batch, or the end."""

    guard: VerificationGuard
    epoch: int
    lowest_sequence: int
    """Of the batches that wait: a later one must not be written before an earlier one, which could
    never follow then."""
    bumps_epochs: bool
    """Every transaction of this producer has an epoch of its own."""
    begun_ms: int

    def include(self, epoch: int, sequence: int) -> None:
        """Another batch waits, perhaps of the producer's next epoch."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class Verifications:
    """Of all producers that wait to open a transaction in one partition, oldest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[int, Verification] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, producer_id: int) -> Verification | None:
        """What a producer waits for."""
        return self._waiting.get(producer_id)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epochs: bool, now_ms: int
    ) -> VerificationGuard:
        """A batch waits for the coordinator; all batches of one producer share the guard."""
        waiting = self._waiting.get(producer_id)
        if waiting is None:
            guard = VerificationGuard()
            waiting = Verification(guard, epoch, sequence, bumps_epochs, now_ms)
            self._waiting[producer_id] = waiting
            if len(self._waiting) > limits.PRODUCERS_PER_PARTITION_MAX:
                del self._waiting[next(iter(self._waiting))]
        waiting.include(epoch, sequence)
        return waiting.guard

    def confirms(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Whether a batch that comes with this guard may open a transaction."""
        if guard is VERIFICATION_OFF:
            return True
        waiting = self._waiting.get(producer_id)
        return waiting is not None and waiting.guard is guard

    def opened(self, producer_id: int) -> None:
        """The transaction is open: from now on that is what counts."""
        self._waiting.pop(producer_id, None)

    def ended(self, marker: Marker) -> None:
        """A marker was written. The guard is taken back, unless it is for the transaction that
        follows: a marker that bumps the epoch has the epoch of that one. (The generation of the
        batch that waits does not tell: another process of the producer may be of another.)"""
        waiting = self._waiting.get(marker.producer_id)
        if waiting is None:
            return
        bumps = waiting.bumps_epochs and marker.transaction_version >= BUMPED_TRANSACTIONS
        if not bumps or waiting.epoch != marker.epoch:
            del self._waiting[marker.producer_id]

    def expire(self, older_than_ms: int) -> None:
        """Forget those that nobody came back for."""
        for producer_id, waiting in list(self._waiting.items()):
            if waiting.begun_ms < older_than_ms:
                del self._waiting[producer_id]
