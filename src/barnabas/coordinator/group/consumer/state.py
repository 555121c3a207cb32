"""What a consumer group consists of, as its records say it.

Only records change it, by the methods here, and they come in any order and with gaps while a
shard is loaded: what is missing is made up, nothing is refused.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.coordinator.assignors.spec import Partitions
from barnabas.coordinator.group.asks import LastRebalance
from barnabas.coordinator.group.consumer.member import (
    LEAVING,
    NOTHING_TOLD,
    Epochs,
    Member,
    Ownership,
)
from barnabas.wire.stored import ConsumerGroupMemberValue, ConsumerGroupRegexValue

FIRST_EPOCH: Final = 1
"""Of a group, and of its (empty) target, before anything was written about them."""


class GroupState:
    """Members and assignments, with the indexes that keep a heartbeat from walking over them."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Partitions] = {}
        self.static_ids: dict[str, str] = {}
        """Member ids by static instance id."""
        self.regexes: dict[str, ConsumerGroupRegexValue] = {}
        """What each expression was last resolved to."""
        self.regex_users: dict[str, int] = {}
        self.assignor_users: dict[str, int] = {}
        self._topic_users: dict[str, int] = {}
        """How many members (by name) and expressions want each topic."""
        self._owners: dict[bytes, dict[int, str]] = {}
        """Who owns each partition, whether it may use it or has yet to give it up."""

        # Known only while the shard is loaded:
        self.metadata_is_stale = True
        """Topics may have changed since the hash was taken."""
        self.stale_because = ""
        self.assigned_at_ms: int | None = None
        """When the target was made, by the monotonic clock."""
        self.regexes_due = False
        """A timer is set to resolve the expressions."""
        self.regexes_resolved_at_ms: int | None = None
        self.regexes_resolved_for: int = -1
        """The count of topic changes that the expressions were resolved for."""
        self.regexes_left: list[str] = []
        """Those that have yet to be resolved; not all are at once."""
        self.regexes_because = ""
        """Why the group is to be balanced once they all are."""
        self.last_rebalance: LastRebalance | None = None

    @property
    def topics(self) -> Mapping[str, int]:
        """Names of the topics that somebody subscribes to; they need not exist."""
        return self._topic_users

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """The member that owns a partition."""
        owners = self._owners.get(topic_id)
        return None if owners is None else owners.get(partition)

    def static_member(self, instance_id: str) -> Member | None:
        """The member with this static instance id."""
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    # --- what records say ------------------------------------------------------------------------

    def put_told(self, member_id: str, told: ConsumerGroupMemberValue) -> None:
        """A member joined, or told news of itself."""
        member = self._member(member_id)
        self._forget_told(member)
        member.told = told
        for topic in told.subscribed_topic_names:
            _count(self._topic_users, topic, 1)
        if member.regex:
            _count(self.regex_users, member.regex, 1)
        if told.server_assignor is not None:
            _count(self.assignor_users, told.server_assignor, 1)
        if told.instance_id is not None:
            self.static_ids[told.instance_id] = member_id

    def put_owned(self, member_id: str, owns: Ownership) -> None:
        """A member was given partitions, or has given some up."""
        member = self._member(member_id)
        self._disown(member)
        member.owns = owns
        for part in (owns.assigned, owns.revoking):
            self._own(member_id, part)

    def drop_owned(self, member_id: str) -> None:
        """A member is about to be removed: what it owned is free."""
        member = self.members.get(member_id)
        if member is not None:
            self._disown(member)
            member.owns = Ownership(epoch=LEAVING)

    def drop_member(self, member_id: str) -> None:
        """A member is gone."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_told(member)
            self._disown(member)

    def put_regex(self, regex: str, value: ConsumerGroupRegexValue | None) -> None:
        """An expression was resolved, or nobody needs it any more (None)."""
        old = self.regexes.pop(regex, None)
        for topic in old.topics if old else ():
            _count(self._topic_users, topic, -1)
        if value is not None:
            self.regexes[regex] = value
            for topic in value.topics:
                _count(self._topic_users, topic, 1)

    # --- indexes ---------------------------------------------------------------------------------

    def _member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Member(member_id)
        return member

    def _forget_told(self, member: Member) -> None:
        told = member.told
        for topic in told.subscribed_topic_names:
            _count(self._topic_users, topic, -1)
        if member.regex:
            _count(self.regex_users, member.regex, -1)
        if told.server_assignor is not None:
            _count(self.assignor_users, told.server_assignor, -1)
        instance_id = told.instance_id
        if instance_id is not None and self.static_ids.get(instance_id) == member.member_id:
            del self.static_ids[instance_id]
        member.told = NOTHING_TOLD

    def _own(self, member_id: str, part: Epochs) -> None:
        for topic_id, partitions in part.items():
            owners = self._owners.setdefault(topic_id, {})
            for partition in partitions:
                owners[partition] = member_id

    def _disown(self, member: Member) -> None:
        member_id = member.member_id
        for part in (member.owns.assigned, member.owns.revoking):
            for topic_id, partitions in part.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    # While loading, the next owner's record may have come before.
                    if owners.get(partition) == member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)


def _count(counts: dict[str, int], key: str, by: int) -> None:
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]
