"""A consumer group, as those see it who commit offsets, list, describe and delete."""

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.cluster.image import Image
from barnabas.coordinator.assignors.spec import Partitions
from barnabas.coordinator.group.asks import (
    NO_GENERATION,
    Assignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    Listing,
)
from barnabas.coordinator.group.consumer.member import Member, sorted_partitions
from barnabas.coordinator.group.consumer.state import GroupState
from barnabas.coordinator.runtime.turn import Turn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import (
    ConsumerGroupMember,
    ConsumerGroupMetadata,
    ConsumerGroupRegex,
    CurrentMemberAssignment,
    Stored,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)

PROTOCOL_TYPE: Final = "consumer"
NO_PARTITIONS: Final[Partitions] = {}


class ConsumerGroup(GroupState):
    """Implements `barnabas.coordinator.group.group.Group`."""

    @property
    def state(self) -> str:
        """Kafka's name of what the group is doing; looks at every member."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        if all(member.owns.is_reconciled_to(epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def listing(self) -> Listing:
        """As ListGroups shows it."""
        return Listing(
            group_id=self.group_id, protocol_type=PROTOCOL_TYPE, state=self.state, kind="consumer"
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.members

    def member(self, member_id: str) -> Member:
        """The member, or UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.unknown_member_id,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def check_commit(
        self,
        turn: Turn[Stored],  # noqa: ARG002 - heartbeats alone are a sign of life here
        member_id: str,
        instance_id: str | None,  # noqa: ARG002 - the member id says it all
        generation: int,
        *,
        knows_epochs: bool,
        partitions: Iterable[tuple[bytes, int]],
    ) -> None:
        """Whether this member may commit.

        An epoch that is older than the member's is good for partitions that were assigned to it
        at that epoch or before and are its own still (Kafka 4.3).
        """
        if generation < 0 and not self.members:
            return
        member = self.member(member_id)
        if not knows_epochs:
            raise KafkaError(
                ErrorCode.unsupported_version,
                "OffsetCommit version 9 or above must be used by members using the consumer "
                "group protocol",
            )
        _check_commit_epoch(member, generation, partitions)

    def check_txn_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        partitions: Iterable[tuple[bytes, int]],
    ) -> None:
        """As `check_commit`, in the words of those who know generations only."""
        if generation < 0 and not self.members:
            return
        if generation == NO_GENERATION and not member_id and instance_id is None:
            return
        try:
            _check_commit_epoch(self.member(member_id), generation, partitions)
        except KafkaError as error:
            if error.code is not ErrorCode.stale_member_epoch:
                raise
            raise KafkaError(ErrorCode.illegal_generation, error.message) from error

    def check_fetch(self, member_id: str, member_epoch: int) -> None:
        """Whether this member may ask for committed offsets; nobody in particular may always."""
        if not member_id and member_epoch < 0:
            return
        epoch = self.member(member_id).owns.epoch
        if member_epoch != epoch:
            raise _mismatch(member_epoch, epoch)

    def check_delete(self) -> None:
        """NON_EMPTY_GROUP while there are members."""
        if self.members:
            raise KafkaError(ErrorCode.non_empty_group, "The group is not empty.")

    def check_offset_delete(self) -> None:
        """Allowed in every state: topics that are subscribed to are asked for apart."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads this topic, by name or by an expression."""
        return topic in self.topics

    def offsets_unused_since_ms(self, committed_ms: int) -> int | None:
        """Since it was committed, as nobody subscribes to the topic."""
        return committed_ms

    def tombstones(self) -> Iterator[Stored]:
        """Everything about the group; members before what they belong to, the group at the end."""
        group_id = self.group_id
        members = tuple(self.members)
        for member_id in members:
            yield CurrentMemberAssignment(group_id, member_id, None)
        for member_id in {**self.targets, **self.members}:
            yield TargetAssignmentMember(group_id, member_id, None)
        yield TargetAssignmentMetadata(group_id, None)
        for member_id in members:
            yield ConsumerGroupMember(group_id, member_id, None)
        for regex in tuple(self.regexes):
            yield ConsumerGroupRegex(group_id, regex, None)
        yield ConsumerGroupMetadata(group_id, None)

    # --- heartbeats ------------------------------------------------------------------------------

    def target(self, member_id: str) -> Partitions:
        """What a member shall own."""
        return self.targets.get(member_id, NO_PARTITIONS)

    def assignor(self, configured: tuple[str, ...]) -> str:
        """The assignor that most members ask for; the first configured when nobody does."""
        users = self.assignor_users
        # max() takes the first of equals, so that the order of the configuration decides.
        return max(configured, key=lambda name: users.get(name, 0))

    def described(self, configured: tuple[str, ...], image: Image) -> DescribedConsumerGroup:
        """As ConsumerGroupDescribe shows it."""
        return DescribedConsumerGroup(
            group_id=self.group_id,
            state=self.state,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor=self.assignor(configured),
            members=tuple(self._described(member, image) for member in self.members.values()),
            last_rebalance=self.last_rebalance,
        )

    def _described(self, member: Member, image: Image) -> DescribedConsumer:
        told, owns = member.told, member.owns
        return DescribedConsumer(
            member_id=member.member_id,
            instance_id=told.instance_id,
            rack_id=told.rack_id,
            member_epoch=owns.epoch,
            client=member.client,
            topic_names=told.subscribed_topic_names,
            topic_regex=told.subscribed_topic_regex,
            # What it has yet to give up is still its own.
            assignment=_existing(sorted_partitions(owns.assigned, owns.revoking), image),
            target=_existing(sorted_partitions(self.target(member.member_id)), image),
        )


def _existing(assignment: Assignment, image: Image) -> Assignment:
    return {each: numbers for each, numbers in assignment.items() if each in image.topics_by_id}


def _mismatch(received: int, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.stale_member_epoch,
        f"The received member epoch {received} does not match the expected member epoch "
        f"{expected}.",
    )


def _check_commit_epoch(
    member: Member, epoch: int, partitions: Iterable[tuple[bytes, int]]
) -> None:
    current = member.owns.epoch
    if epoch > current:
        raise KafkaError(
            ErrorCode.stale_member_epoch,
            f"Received member epoch {epoch} is newer than current member epoch {current}.",
        )
    if epoch < current:
        for topic_id, partition in partitions:
            _check_assigned_by(member, epoch, topic_id, partition)


def _check_assigned_by(member: Member, epoch: int, topic_id: bytes, partition: int) -> None:
    owns = member.owns
    since = owns.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = owns.revoking.get(topic_id, {}).get(partition)
    if since is None:
        raise KafkaError(
            ErrorCode.stale_member_epoch,
            f"Partition {partition} is not assigned or pending revocation for member.",
        )
    if epoch < since:
        raise KafkaError(
            ErrorCode.stale_member_epoch,
            f"Received member epoch {epoch} is older than assignment epoch {since} for "
            f"partition {partition}.",
        )
