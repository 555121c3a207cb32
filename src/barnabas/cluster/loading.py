"""From the stored tree to an image, and what a starting broker writes into the tree first."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from barnabas.cluster import layout
from barnabas.cluster.image import BrokerNode, Image, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.keys import Key, Update, parse_value
from barnabas.config.topic_config import TopicConfig
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.model.errors import BarnabasError, KafkaError
from barnabas.ports.coordination import Create, Node, Op, SetData

Tree = Mapping[str, Node]

_log = logging.getLogger(__name__)


def controller_epoch(tree: Tree) -> int:
    """How often a controller has taken office."""
    node = tree.get(layout.CONTROLLER_EPOCH)
    return int(node.data) if node else 0


def opening_operations(tree: Tree, me: BrokerNode, new_cluster_id: str, wall_ms: int) -> list[Op]:
    """Fixed nodes that are missing; then this broker registers and takes office as controller.

    Registration and office are ephemeral: they end with the session.
    """
    if layout.broker_path(me.id) in tree:
        raise BarnabasError(
            f"Broker {me.id} is registered already; give this one another node.id or stop that one."
        )
    operations: list[Op] = [Create(path) for path in layout.PARENTS if path not in tree]
    if layout.CLUSTER_ID not in tree:
        operations.append(Create(layout.CLUSTER_ID, layout.encode_cluster_id(new_cluster_id)))
    if layout.PRODUCER_ID_BLOCK not in tree:
        operations.append(Create(layout.PRODUCER_ID_BLOCK))
    epoch = str(controller_epoch(tree) + 1).encode()
    stored = tree.get(layout.CONTROLLER_EPOCH)
    operations += [
        Create(layout.broker_path(me.id), layout.encode_broker(me, wall_ms), ephemeral=True),
        Create(layout.CONTROLLER, layout.encode_controller(me.id, wall_ms), ephemeral=True),
        SetData(layout.CONTROLLER_EPOCH, epoch, stored.version)
        if stored
        else Create(layout.CONTROLLER_EPOCH, epoch),
    ]
    return operations


def load_image(tree: Tree, me: BrokerNode, cluster_id: str, static: BrokerConfig) -> Image:
    """The image of what was stored, as broker `me` and controller sees it.

    Raises BarnabasError when the store does not hold together or belongs to another broker.
    """
    overrides = {
        name: _usable(
            layout.decode_config(path, node.data), BROKER_KEYS, f"the configuration of {name}"
        )
        for name, path, node in _children(tree, layout.BROKER_CONFIGS)
    }
    dynamic = [_dynamic(overrides.get(name, {})) for name in (layout.DEFAULT_BROKER, str(me.id))]
    config = static.with_dynamic(dynamic[0], dynamic[1])
    image = Image(
        cluster_id=cluster_id,
        controller_id=me.id,
        brokers={me.id: me},
        config=config,
        broker_overrides=overrides,
    )
    topics = [
        _load_topic(tree, name, node, config) for name, _, node in _children(tree, layout.TOPICS)
    ]
    for topic in topics:
        _check_mine(topic, me.id)
    return image.with_topics(topics)


def bump_leader_epochs(image: Image, controller: int) -> tuple[Image, list[Op]]:
    """Every partition under the next leader epoch, and what has to be stored for that."""
    topics: list[Topic] = []
    operations: list[Op] = []
    for topic in image.topics.values():
        states = tuple(
            replace(
                state,
                leader_epoch=state.leader_epoch + 1,
                partition_epoch=state.partition_epoch + 1,
            )
            for state in topic.partitions
        )
        topics.append(replace(topic, partitions=states))
        operations += [
            SetData(layout.state_path(topic.name, number), layout.encode_state(state, controller))
            for number, state in enumerate(states)
        ]
    return image.with_topics(topics), operations


def stored_cluster_id(tree: Tree) -> str | None:
    """The cluster's id, if it has one yet."""
    node = tree.get(layout.CLUSTER_ID)
    return layout.decode_cluster_id(node.data) if node else None


def _load_topic(tree: Tree, name: str, node: Node, config: BrokerConfig) -> Topic:
    topic_id, replicas = layout.decode_topic(name, node.data)
    path = layout.topic_config_path(name)
    stored = layout.decode_config(path, _required(tree, path).data)
    overrides = _usable(stored, TOPIC_KEYS, f"topic {name}")
    states = []
    for number, each in enumerate(replicas):
        path = layout.state_path(name, number)
        state = _required(tree, path)
        states.append(layout.decode_state(path, state.data, each, state.version))
    return Topic(
        name,
        topic_id,
        tuple(states),
        overrides,
        TopicConfig.from_maps(overrides, config.topic_defaults),
    )


def _check_mine(topic: Topic, broker: int) -> None:
    for number, state in enumerate(topic.partitions):
        if broker not in state.replicas:
            raise BarnabasError(
                f"Partition {number} of topic {topic.name} belongs to broker "
                f"{state.replicas[0]}, and this is broker {broker}; "
                f"start it with node.id={state.replicas[0]}."
            )


def _usable(settings: Mapping[str, str], keys: Mapping[str, Key], whose: str) -> dict[str, str]:
    """What is stored may come from a broker with other keys or bounds. Refusing to start would
    leave nobody to mend it, so such a setting is left out, as Kafka does."""
    usable: dict[str, str] = {}
    for name, text in settings.items():
        try:
            if name not in keys:
                raise KeyError(name)
            parse_value(keys[name], text)
        except (KafkaError, KeyError):
            _log.warning("Ignoring %s of %s: it is unknown or its value unusable.", name, whose)
        else:
            usable[name] = text
    return usable


def _dynamic(settings: Mapping[str, str]) -> dict[str, str]:
    """Only what may be set at run time: start-up settings are the file's to say."""
    return {
        name: text
        for name, text in settings.items()
        if BROKER_KEYS[name].update is not Update.READ_ONLY
    }


def _required(tree: Tree, path: str) -> Node:
    node = tree.get(path)
    if node is None:
        raise BarnabasError(f"The cluster's store is damaged: there is nothing at {path}.")
    return node


def _children(tree: Tree, parent: str) -> list[tuple[str, str, Node]]:
    """Name, path and node of each direct child, by name."""
    prefix = f"{parent}/"
    found = [
        (path[len(prefix) :], path, node)
        for path, node in tree.items()
        if path.startswith(prefix) and "/" not in path[len(prefix) :]
    ]
    return sorted(found, key=lambda child: child[0])
