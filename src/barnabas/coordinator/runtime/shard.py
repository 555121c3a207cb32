"""What the runtime asks of a shard."""

from collections.abc import Collection
from typing import Protocol, TypeVar

from barnabas.cluster.image import Topic
from barnabas.coordinator.runtime.turn import TimerKey, Turn

R = TypeVar("R")


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
