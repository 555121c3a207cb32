"""What any kind of group is to those who commit offsets, list and delete."""

from collections.abc import Iterable
from typing import Protocol

from barnabas.coordinator.group.asks import Listing
from barnabas.coordinator.runtime.turn import Turn
from barnabas.wire.stored import Stored


class Group(Protocol):
    """A classic or a consumer group. The checks raise KafkaError."""

    group_id: str

    @property
    def listing(self) -> Listing:
        """Name, protocol type, state ("Empty", "Stable", ...) and kind."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether nobody is, or is about to become, a member."""
        ...

    def check_commit(
        self,
        turn: Turn[Stored],
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        knows_epochs: bool,
        partitions: Iterable[tuple[bytes, int]],
    ) -> None:
        """Whether this member may commit now, for these partitions by topic id. In a classic
        group a commit is also a sign of life."""
        ...

    def check_txn_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        partitions: Iterable[tuple[bytes, int]],
    ) -> None:
        """Whether a producer may commit for this member within a transaction: ILLEGAL_GENERATION
        where it comes too late. One that names nobody always may."""
        ...

    def check_fetch(self, member_id: str, member_epoch: int) -> None:
        """Whether this member may ask for committed offsets (OffsetFetch v9+)."""
        ...

    def check_delete(self) -> None:
        """NON_EMPTY_GROUP unless the group may be deleted."""
        ...

    def check_offset_delete(self) -> None:
        """Whether single offsets may be deleted in the group's state."""
        ...

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads this topic: its offsets are neither deleted nor expired."""
        ...

    def offsets_unused_since_ms(self, committed_ms: int) -> int | None:
        """From when on an offset that was committed at `committed_ms` counts as unused, by the
        wall clock; None while it is in use. (Topics that are subscribed to are asked for apart.)
        """
        ...

    def tombstones(self) -> Iterable[Stored]:
        """The records that remove the group itself from the log (not its offsets)."""
        ...
