"""ConsumerGroupDescribe, with why and when each group was last rebalanced."""

from dataclasses import dataclass, field

from kio.schema.consumer_group_describe.v1 import response

from barnabas.wire.shapes.last_rebalance import NOT_REMEMBERED, TAG, LastRebalance


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup(response.DescribedGroup):
    """Tells about the last rebalance, as far as that is remembered."""

    last_rebalance: LastRebalance = field(metadata={"tag": TAG}, default=NOT_REMEMBERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse(response.ConsumerGroupDescribeResponse):
    """As Kafka's, with groups that tell more."""

    groups: tuple[DescribedGroup, ...]
