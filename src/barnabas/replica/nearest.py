"""Which replica is near a consumer (KIP-392), as Kafka's RackAwareReplicaSelector chooses."""

from collections.abc import Mapping

from barnabas.cluster.image import BrokerNode
from barnabas.replica.in_sync import InSync


def nearest_replica(
    in_sync: InSync, rack: str, offset: int, brokers: Mapping[int, BrokerNode]
) -> int | None:
    """The follower in `rack` where a consumer should read from `offset` on; None: at the leader.

    It is in the ISR, has that offset, and of several it is the one that has most, or has had
    everything most lately. A leader in that rack is preferred to any.
    """
    leader = brokers.get(in_sync.state.leader)
    if leader is not None and leader.rack == rack:
        return None
    best: tuple[int, float, int] | None = None
    for broker in in_sync.state.isr:
        node, follower = brokers.get(broker), in_sync.follower(broker)
        if follower is None or node is None or node.rack != rack or node.leaving:
            continue
        if not follower.start_offset <= offset <= follower.end_offset:
            continue
        rank = (follower.end_offset, follower.caught_up_s, broker)
        best = rank if best is None else max(best, rank)
    return None if best is None else best[2]
