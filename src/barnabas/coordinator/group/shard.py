"""All groups of one partition of `__consumer_offsets`: routes every event to whom it concerns."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

from barnabas.cluster.image import Topic
from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import (
    Commit,
    CommittedOffset,
    FetchOffsets,
    Leaver,
    Left,
    Listing,
    TxnCommit,
)
from barnabas.coordinator.group.classic.groups import ClassicGroups
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.groups import ConsumerGroups
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.offsets.offsets import Offsets
from barnabas.coordinator.runtime.turn import TimerKey, Turn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.entropy import Entropy
from barnabas.wire.stored import GroupMetadata, OffsetCommit, Stored

GroupTurn: TypeAlias = Turn[Stored]

_EXPIRY: Final = TimerKey("expiry", "")


class GroupShard:
    """The groups, of either kind, and their offsets."""

    def __init__(self, settings: Callable[[], GroupSettings], entropy: Entropy) -> None:
        self._settings = settings
        self.groups: dict[str, Group] = {}
        self.classic = ClassicGroups(self.groups, settings, entropy)
        self.consumer = ConsumerGroups(self.groups, settings, entropy)
        self.offsets = Offsets(settings)

    # --- what the runtime asks -----------------------------------------------------------------

    def apply(self, record: Stored) -> None:
        """A record that was just decided on, or read back."""
        if isinstance(record, OffsetCommit):
            self.offsets.apply(record)
        elif isinstance(record, GroupMetadata):
            self.classic.apply(record)
        else:
            self.consumer.apply(record)

    def apply_pending(self, record: Stored, producer_id: int) -> None:
        """An offset that a producer has committed within its transaction. (Nobody writes anything
        else in transactions.) The group is there from now on, whatever becomes of it."""
        if isinstance(record, OffsetCommit):
            self.offsets.apply_pending(record, producer_id)
            if record.group not in self.groups:
                self.classic.simple(record.group)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A producer's transaction has ended."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def loaded(self, turn: GroupTurn) -> None:
        """Sessions begin anew; offsets without a group get the group they belong to."""
        for group_id in tuple(self.offsets.groups()):
            if group_id not in self.groups:
                self.classic.simple(group_id)
        self.classic.loaded(turn)
        self.consumer.loaded(turn)
        self.offsets.forget_replaced_topics(turn)
        self._expire_later(turn)

    def fire(self, turn: GroupTurn, key: TimerKey) -> None:
        """A timer: each kind of group has its own."""
        if key == _EXPIRY:
            self._expire(turn)
        elif key.kind.startswith("classic-"):
            self.classic.fire(turn, key)
        else:
            self.consumer.fire(turn, key)

    def topics_changed(self, turn: GroupTurn, topics: Collection[Topic]) -> None:
        """Only the coordinator's own assignments depend on topics."""
        self.consumer.topics_changed(turn, topics)

    def topics_deleted(self, turn: GroupTurn, topics: Collection[Topic]) -> None:
        """Nobody shall go on in a new topic where the old one of its name was left."""
        self.consumer.topics_deleted(turn, topics)
        self.offsets.topics_deleted(turn, topics)

    # --- offsets -------------------------------------------------------------------------------

    def commit(self, turn: GroupTurn, ask: Commit) -> list[ErrorCode]:
        """Somebody without a generation commits for a group of its own making."""
        group = self.groups.get(ask.group_id)
        if group is None:
            if ask.generation >= 0:
                raise KafkaError(
                    ErrorCode.group_id_not_found
                    if ask.knows_epochs
                    else ErrorCode.illegal_generation
                )
            group = self.classic.simple(ask.group_id)
        return self.offsets.commit(turn, group, ask)

    def txn_commit(self, turn: GroupTurn, ask: TxnCommit) -> list[ErrorCode]:
        """A producer commits within its transaction."""
        return self.offsets.txn_commit(turn, self.groups.get(ask.group_id), ask)

    def fetch_offsets(self, ask: FetchOffsets) -> Mapping[tuple[str, int], CommittedOffset]:
        """Those of the partitions that have an offset; of a group that is not there, none, whoever
        asks."""
        group_id, stable = ask.group_id, ask.require_stable
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(ask.member_id, ask.member_epoch)
        if ask.partitions is None:
            return self.offsets.all_of(group_id, require_stable=stable)
        found = (
            (each, self.offsets.fetch(group_id, *each, require_stable=stable))
            for each in ask.partitions
        )
        return {partition: offset for partition, offset in found if offset is not None}

    def delete_offsets(
        self, turn: GroupTurn, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> list[ErrorCode]:
        """OffsetDelete."""
        return self.offsets.delete(turn, self._existing(group_id), partitions)

    def leave(self, turn: GroupTurn, group_id: str, leavers: Sequence[Leaver]) -> list[Left]:
        """LeaveGroup, for members of either kind of group."""
        if isinstance(self.groups.get(group_id), ConsumerGroup):
            return self.consumer.remove(turn, group_id, leavers)
        return self.classic.leave(turn, group_id, leavers)

    # --- groups as such ------------------------------------------------------------------------

    def list_groups(self) -> list[Listing]:
        """Every group."""
        return [group.listing for group in self.groups.values()]

    def delete_group(self, turn: GroupTurn, group_id: str) -> None:
        """A group without members, and all of its offsets."""
        group = self._existing(group_id)
        group.check_delete()
        self.offsets.delete_all(turn, group_id)
        self._remove(turn, group)

    def _existing(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
        return group

    def _remove(self, turn: GroupTurn, group: Group) -> None:
        for record in tuple(group.tombstones()):
            turn.write(record)
        self.groups.pop(group.group_id, None)

    # --- expiry --------------------------------------------------------------------------------

    def _expire_later(self, turn: GroupTurn) -> None:
        turn.schedule(_EXPIRY, self._settings().offsets_retention_check_interval_ms)

    def _expire(self, turn: GroupTurn) -> None:
        """Let go of offsets that nobody has used for long, and of groups that hold none."""
        for group in tuple(self.groups.values()):
            if self.offsets.expire(turn, group) and group.is_empty:
                self._remove(turn, group)
        self._expire_later(turn)
