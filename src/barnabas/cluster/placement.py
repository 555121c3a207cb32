"""Which brokers hold the replicas of new partitions. The first of each leads it."""

from collections import deque
from collections.abc import Collection

from barnabas.cluster.image import BrokerNode
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.entropy import Entropy


def place(
    brokers: Collection[BrokerNode], count: int, replication_factor: int, entropy: Entropy
) -> list[tuple[int, ...]]:
    """Replicas for `count` partitions: leaders go round, so that each broker leads its share.

    Replicas of one partition are on different brokers, and on different racks while there are
    racks left. Starts at a random broker, or every topic's first partition would land on the
    same one. Raises INVALID_REPLICATION_FACTOR when there are too few brokers.
    """
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {replication_factor} time(s): "
            f"only {len(brokers)} broker(s) are registered.",
        )
    order = _across_racks(brokers)
    start, shift = entropy.below(len(order)), entropy.below(len(order))
    return [
        _replicas(
            order, (start + number) % len(order), shift + number // len(order), replication_factor
        )
        for number in range(count)
    ]


def _across_racks(brokers: Collection[BrokerNode]) -> list[BrokerNode]:
    """Neighbours on different racks where possible, so that leaders alternate between racks."""
    racks: dict[str | None, deque[BrokerNode]] = {}
    for broker in sorted(brokers, key=lambda each: each.id):
        racks.setdefault(broker.rack, deque()).append(broker)
    order: list[BrokerNode] = []
    while racks:
        for rack in list(racks):
            order.append(racks[rack].popleft())
            if not racks[rack]:
                del racks[rack]
    return order


def _replicas(order: list[BrokerNode], leader: int, shift: int, count: int) -> tuple[int, ...]:
    """The leader, then followers from `shift` places on: each round pairs leaders with others,
    so that a broker's load is spread over many when it dies."""
    others = [order[(leader + 1 + step) % len(order)] for step in range(len(order) - 1)]
    if others:
        turn = shift % len(others)
        others = others[turn:] + others[:turn]
    chosen, racks, passed_over = [order[leader]], {order[leader].rack}, []
    for broker in others:
        if broker.rack in racks:
            passed_over.append(broker)
        else:
            chosen.append(broker)
            racks.add(broker.rack)
    return tuple(broker.id for broker in (chosen + passed_over)[:count])


def check_assignment(
    replicas: Collection[int], brokers: Collection[int], replication_factor: int | None
) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless a hand-made replica list can be used."""
    problem = None
    unknown = sorted(set(replicas) - set(brokers))
    if not replicas:
        problem = "it includes an empty replica list"
    elif unknown:
        problem = f"it includes broker {unknown[0]}, but no such broker is registered"
    elif len(set(replicas)) != len(replicas):
        twice = next(each for each in sorted(replicas) if list(replicas).count(each) > 1)
        problem = f"it includes the broker {twice} more than once"
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = (
            f"it includes a partition with {len(replicas)} replica(s), "
            f"but earlier partitions have {replication_factor}"
        )
    if problem:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"The manual partition assignment is invalid: {problem}.",
        )
