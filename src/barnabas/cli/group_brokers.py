"""The brokers that coordinate groups, asked for what confluent-kafka has no question for.

It tells neither epochs, nor all states, nor why a group was rebalanced, and it can not delete the
offsets of one topic. A broker answers only for the groups it coordinates.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.brokers import Broker, Brokers, check
from barnabas.model.errors import ErrorCode

LIST_GROUPS: Final = 16
DESCRIBE_GROUPS: Final = 15
CONSUMER_GROUP_DESCRIBE: Final = 69
OFFSET_DELETE: Final = 47

_ASKED_AT_ONCE: Final = 500
"""Groups in one request: enough to be quick, and an answer that stays small."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A group as a list shows it, and the broker that coordinates it."""

    name: str
    type: str
    state: str
    protocol_type: str
    coordinator: "GroupBroker"


class GroupBroker(Broker):
    """A broker that is asked about its groups."""

    def groups(self) -> list[Listed]:
        """Every group this broker coordinates."""
        from kio.schema.list_groups.v5.request import ListGroupsRequest

        answer = self.ask(LIST_GROUPS, ListGroupsRequest())
        check("List groups", answer.error_code)
        return [
            # Brokers from before the new protocol name no type: all groups were classic.
            Listed(
                name=each.group_id,
                type=each.group_type or "classic",
                state=each.group_state or "Unknown",
                protocol_type=each.protocol_type,
                coordinator=self,
            )
            for each in answer.groups
        ]

    def classic_groups(self, names: list[str]) -> list[Any]:
        """DescribeGroups' answer for each of these."""
        from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
        from kio.schema.types import GroupId

        found: list[Any] = []
        for some in _slices(names):
            request = DescribeGroupsRequest(
                groups=tuple(map(GroupId, some)), include_authorized_operations=False
            )
            found += self.ask(DESCRIBE_GROUPS, request).groups
        return found

    def consumer_groups(self, names: list[str]) -> list[Any]:
        """ConsumerGroupDescribe's answer for each of these."""
        from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
        from kio.schema.types import GroupId

        found: list[Any] = []
        for some in _slices(names):
            request = ConsumerGroupDescribeRequest(
                group_ids=tuple(map(GroupId, some)), include_authorized_operations=False
            )
            found += self.ask(CONSUMER_GROUP_DESCRIBE, request).groups
        return found

    def delete_offsets(self, group: str, topic: str, partitions: list[int]) -> dict[int, ErrorCode]:
        """Forget what the group committed for these; what came of each."""
        from kio.schema.offset_delete.v0.request import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )
        from kio.schema.types import GroupId, TopicName
        from kio.static.primitive import i32

        wanted = OffsetDeleteRequestTopic(
            name=TopicName(topic),
            partitions=tuple(
                OffsetDeleteRequestPartition(partition_index=i32(each)) for each in partitions
            ),
        )
        answer = self.ask(
            OFFSET_DELETE, OffsetDeleteRequest(group_id=GroupId(group), topics=(wanted,))
        )
        check(f"Delete offsets of {group}", answer.error_code)
        return {
            each.partition_index: each.error_code
            for found in answer.topics
            for each in found.partitions
        }


class GroupBrokers(Brokers[GroupBroker]):
    """All of a cluster's brokers."""

    def __init__(self, client: Any) -> None:
        super().__init__(client, GroupBroker)

    def groups(self) -> dict[str, Listed]:
        """Every group there is, by name."""
        found = [group for broker in self.by_id.values() for group in broker.groups()]
        return {group.name: group for group in sorted(found, key=lambda group: group.name)}


def _slices(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _ASKED_AT_ONCE):
        yield names[start : start + _ASKED_AT_ONCE]
