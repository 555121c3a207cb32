"""From the stored tree to an image."""

import logging
from collections.abc import Mapping, Sequence

from barnabas.cluster import layout
from barnabas.cluster.image import NO_CONTROLLER, BrokerNode, Image, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.keys import Key, Update, parse_value
from barnabas.config.topic_config import TopicConfig
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.model.errors import BarnabasError, KafkaError
from barnabas.ports.coordination import Node

Tree = Mapping[str, Node]

_log = logging.getLogger(__name__)


def load_image(tree: Tree, node_id: int, static: BrokerConfig) -> Image:
    """The image of what was stored, as broker `node_id` sees it.

    Raises BarnabasError when the store does not hold together.
    """
    overrides = {
        name: broker_settings(name, node) for name, node in children(tree, layout.BROKER_CONFIGS)
    }
    config = effective_config(static, overrides, node_id)
    controller = tree.get(layout.CONTROLLER)
    epoch = tree.get(layout.CONTROLLER_EPOCH)
    image = Image(
        cluster_id=layout.decode_cluster_id(_required(tree, layout.CLUSTER_ID).data),
        controller_id=layout.decode_controller(controller.data) if controller else NO_CONTROLLER,
        controller_epoch=layout.decode_controller_epoch(epoch.data) if epoch else 0,
        brokers=load_brokers(children(tree, layout.BROKER_IDS)),
        config=config,
        broker_overrides=overrides,
    )
    return image.with_topics(
        _load_topic(tree, name, node, config)
        for name, node in children(tree, layout.TOPICS)
        if not layout.is_pending(node.data)
    )


def load_brokers(registered: Sequence[tuple[str, Node]]) -> dict[int, BrokerNode]:
    """The live brokers, in the order of their numbers."""
    found = [
        layout.decode_broker(layout.broker_number(layout.BROKER_IDS, name), node.data, node.created)
        for name, node in registered
    ]
    return {broker.id: broker for broker in sorted(found, key=lambda each: each.id)}


def load_topic(
    name: str, node: Node, settings: Node, states: Sequence[Node], config: BrokerConfig
) -> Topic:
    """A topic of its nodes: its own, its configuration, and the state of each partition."""
    topic_id, replicas = layout.decode_topic(name, node.data)
    overrides = topic_settings(name, settings)
    return Topic(
        name,
        topic_id,
        tuple(
            layout.decode_state(layout.state_path(name, number), state.data, each, state.version)
            for number, (each, state) in enumerate(zip(replicas, states, strict=True))
        ),
        overrides,
        TopicConfig.from_maps(overrides, config.topic_defaults),
    )


def topic_settings(name: str, node: Node) -> dict[str, str]:
    """What was set for one topic, as far as it can be used."""
    stored = layout.decode_config(layout.topic_config_path(name), node.data)
    return _usable(stored, TOPIC_KEYS, f"topic {name}")


def broker_settings(name: str, node: Node) -> dict[str, str]:
    """What was set at run time for a broker or for all, as far as it can be used."""
    stored = layout.decode_config(layout.broker_config_path(name), node.data)
    return _usable(stored, BROKER_KEYS, f"the configuration of {name}")


def effective_config(
    static: BrokerConfig, overrides: Mapping[str, Mapping[str, str]], node_id: int
) -> BrokerConfig:
    """What a broker was started with, and what was set at run time above that."""
    layers = [_dynamic(overrides.get(name, {})) for name in (layout.DEFAULT_BROKER, str(node_id))]
    try:
        return static.with_dynamic(layers[0], layers[1])
    except KafkaError as error:
        _log.warning("Ignoring what was set at run time for this broker: %s", error)
        return static


def children(tree: Tree, parent: str) -> list[tuple[str, Node]]:
    """Name and node of each direct child, by name."""
    prefix = f"{parent}/"
    found = [
        (path[len(prefix) :], node)
        for path, node in tree.items()
        if path.startswith(prefix) and "/" not in path[len(prefix) :]
    ]
    return sorted(found, key=lambda child: child[0])


def _load_topic(tree: Tree, name: str, node: Node, config: BrokerConfig) -> Topic:
    _, replicas = layout.decode_topic(name, node.data)
    settings = _required(tree, layout.topic_config_path(name))
    states = [_required(tree, layout.state_path(name, number)) for number in range(len(replicas))]
    return load_topic(name, node, settings, states, config)


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
