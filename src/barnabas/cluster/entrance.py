"""What a broker makes sure of before it joins: that the store is the right one, and complete."""

from typing import Final

from barnabas.cluster import layout, loading
from barnabas.cluster.errors import CHANGED_MEANWHILE
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import Coordination, Create, Op
from barnabas.ports.entropy import Entropy

_OWN_PATH: Final = (
    "give Barnabas a path of its own in the store (zookeeper.connect=host:port/path)."
)

_TRACES: Final = (layout.CLUSTER_ID, layout.CONTROLLER, layout.CONTROLLER_EPOCH)
_PARENTS_OF_TRACES: Final = (
    layout.BROKER_IDS,
    layout.TOPICS,
    layout.TOPIC_CONFIGS,
    layout.BROKER_CONFIGS,
)
"""Kafka, whose paths these are, makes the parents first."""


async def prepare_store(
    coordination: Coordination,
    entropy: Entropy,
    expected_cluster: str | None,
    *,
    is_shared: bool = True,
) -> None:
    """Make what every cluster has, where it is missing; several brokers may do so at once.

    Raises BarnabasError when the store belongs to another cluster, or to another system. That can
    not be where it is not `is_shared`, but a broker's own.
    """
    while True:
        await coordination.sync()
        await check_cluster(coordination, expected_cluster)
        await _check_neighbours(coordination)
        if is_shared:
            await _check_maker(coordination)
        missing = await _missing(coordination)
        if await coordination.get(layout.CLUSTER_ID) is None:
            made = layout.encode_cluster_id(layout.encode_uuid(entropy.uuid()))
            missing.append(Create(layout.CLUSTER_ID, made))
        if not missing:
            return
        try:
            await coordination.commit(*missing)
        except CHANGED_MEANWHILE:
            continue  # Another broker is doing the same; see what is left.
        return


async def check_cluster(coordination: Coordination, expected: str | None) -> None:
    """Raise BarnabasError unless the store is the one of that cluster, or any will do."""
    if expected is None:
        return
    node = await coordination.get(layout.CLUSTER_ID)
    stored = layout.decode_cluster_id(node.data) if node else None
    if stored is None:
        raise BarnabasError(
            f"This data directory belongs to cluster {expected}, and the cluster's store is empty; "
            "let the broker use the store of that cluster, or an empty data directory."
        )
    if stored != expected:
        raise BarnabasError(
            f"This data directory belongs to cluster {expected}, and the store to cluster "
            f"{stored}; let the broker use its own cluster's store, or an empty data directory."
        )


async def _check_neighbours(coordination: Coordination) -> None:
    for name in await coordination.children(layout.BROKER_IDS):
        node = await coordination.get(f"{layout.BROKER_IDS}/{name}")
        if node is not None and layout.registered_directory(node.data) is None:
            raise BarnabasError(f"Broker {name} of this store is not Barnabas; {_OWN_PATH}")


async def _check_maker(coordination: Coordination) -> None:
    """What looks like a cluster of ours, but was not made by us, is a Kafka's that is not running.

    Ours is made in one commit, so no part of it is ever there without the others. That another
    broker may make it while this one looks is why the mark is looked for last: what was found
    before it was either there with the mark, or is a stranger's.
    """
    found = [path for path in _TRACES if await coordination.get(path) is not None]
    for parent in _PARENTS_OF_TRACES:
        found += [f"{parent}/{name}" for name in await coordination.children(parent)]
    if found and await coordination.get(layout.OURS) is None:
        raise BarnabasError(
            f"The store belongs to another system: it has {found[0]}, and nothing of Barnabas; "
            + _OWN_PATH
        )


async def _missing(coordination: Coordination) -> list[Op]:
    operations: list[Op] = []
    for path in layout.PARENTS:
        if await coordination.get(path) is None:
            operations.append(Create(path))
            if path == layout.TOPIC_IDS:
                # A store from before there were any.
                operations += await _ids_of_topics(coordination)
    return operations


async def _ids_of_topics(coordination: Coordination) -> list[Op]:
    topics = await coordination.tree(layout.TOPICS)
    return [
        Create(layout.topic_id_path(layout.decode_topic(name, node.data)[0]))
        for name, node in loading.children(topics, layout.TOPICS)
        if not layout.is_pending(node.data)
    ]
