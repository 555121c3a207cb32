"""What the runtime asks of a shard."""

from collections.abc import Collection
from typing import Any, Protocol, TypeVar, runtime_checkable

from barnabas.cluster.image import Topic
from barnabas.coordinator.runtime.turn import TimerKey, Turn
from barnabas.model.check import require

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Shard(Protocol[R]):
    """State that lives in one partition of an internal topic. No method waits."""

    def apply(self, record: R) -> None:
        """Take over what a record says: one just written, or one read back while loading.

        While loading only the last record of each key comes, in the order of the log.
        """
        ...

    def loaded(self, turn: Turn[R]) -> None:
        """Everything was read back: set timers, mend what was left half done. As in any other
        turn, replies are delivered once its records are committed."""
        ...

    def fire(self, turn: Turn[R], key: TimerKey) -> None:
        """A timer that was set has come."""
        ...

    def topics_changed(self, turn: Turn[R], topics: Collection[Topic]) -> None:
        """These topics are new, or have other partitions than before."""
        ...

    def topics_deleted(self, turn: Turn[R], topics: Collection[Topic]) -> None:
        """These topics are gone."""
        ...


@runtime_checkable
class TransactionalShard(Protocol[R_contra]):
    """A shard whose records may be part of transactions that others coordinate."""

    def apply_pending(self, record: R_contra, producer_id: int) -> None:
        """A record that is in the log, but counts only when the producer's transaction is
        committed, and then as if it had counted from now on."""
        ...

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker is in the log: what is pending for the producer counts, or is forgotten."""
        ...


def transactional(shard: object) -> TransactionalShard[Any]:
    """The shard, as one that must know about transactions."""
    require(isinstance(shard, TransactionalShard), f"{type(shard).__name__} has no transactions")
    return shard  # type: ignore[return-value]  # Just made sure of.
