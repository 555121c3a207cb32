"""Where things are kept in the coordination tree, and their JSON: Kafka's own paths and fields."""

import base64
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from barnabas.cluster.image import BrokerNode, PartitionState
from barnabas.model.errors import BarnabasError

CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

DEFAULT_BROKER: Final = "<default>"
"""The name under `BROKER_CONFIGS` for what holds for every broker."""

_STATES_REMEMBERED: Final = 1024
"""Most partitions of a topic are in the same state."""

PARENTS: Final = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
)
"""Nodes that only hold others, parents first: a node can not be made without them."""


def broker_path(broker: int) -> str:
    """A broker's registration."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """A topic's id and the replicas of its partitions."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """The parent of a partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    """A partition's leader and in-sync replicas."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    """A topic's own settings."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(name: str) -> str:
    """What was set at run time for a broker, or for `DEFAULT_BROKER`."""
    return f"{BROKER_CONFIGS}/{name}"


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's short form of a UUID: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def decode_uuid(text: str) -> uuid.UUID:
    """The UUID of its short form; ValueError if it is none."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def encode_cluster_id(cluster_id: str) -> bytes:
    return _dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(_load(CLUSTER_ID, data, "id")["id"])


def encode_broker(node: BrokerNode, wall_ms: int) -> bytes:
    registration: dict[str, object] = {
        "version": 5,
        "host": node.host,
        "port": node.port,
        "endpoints": [f"PLAINTEXT://{_bracketed(node.host)}:{node.port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "timestamp": str(wall_ms),
        "features": {},
    }
    if node.rack is not None:
        registration["rack"] = node.rack
    return _dump(registration)


def decode_broker(broker: int, data: bytes) -> BrokerNode:
    found = _load(broker_path(broker), data, "host", "port")
    return BrokerNode(broker, found["host"], found["port"], found.get("rack"))


def encode_topic(topic_id: uuid.UUID, replicas: Iterable[Sequence[int]]) -> bytes:
    return _dump(
        {
            "version": 3,
            "topic_id": encode_uuid(topic_id),
            "partitions": {str(number): list(each) for number, each in enumerate(replicas)},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    )


def decode_topic(topic: str, data: bytes) -> tuple[uuid.UUID, list[tuple[int, ...]]]:
    """The topic's id, and the replicas of its partitions by number."""
    found = _load(topic_path(topic), data, "topic_id", "partitions")
    partitions = found["partitions"]
    replicas = [tuple(partitions[str(number)]) for number in range(len(partitions))]
    return decode_uuid(found["topic_id"]), replicas


@lru_cache(maxsize=_STATES_REMEMBERED)
def encode_state(state: PartitionState, controller_epoch: int) -> bytes:
    return _dump(
        {
            "version": 1,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            "controller_epoch": controller_epoch,
        }
    )


def decode_state(path: str, data: bytes, replicas: tuple[int, ...], version: int) -> PartitionState:
    """`version` is the node's own: it counts the changes of the state."""
    found = _load(path, data, "leader", "leader_epoch", "isr")
    return _the_same(
        PartitionState(
            found["leader"], found["leader_epoch"], replicas, tuple(found["isr"]), version
        )
    )


@lru_cache(maxsize=_STATES_REMEMBERED)
def _the_same(state: PartitionState) -> PartitionState:
    """One object for all that are equal: ten thousand take memory."""
    return state


def encode_config(settings: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(settings)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    return dict(_load(path, data, "config")["config"])


def encode_controller(broker: int, wall_ms: int) -> bytes:
    return _dump({"version": 1, "brokerid": broker, "timestamp": str(wall_ms)})


def decode_controller(data: bytes) -> int:
    return int(_load(CONTROLLER, data, "brokerid")["brokerid"])


def encode_producer_ids(broker: int, block: range) -> bytes:
    return _dump(
        {
            "version": 1,
            "broker": broker,
            "block_start": str(block.start),
            "block_end": str(block.stop - 1),
        }
    )


def decode_producer_ids(data: bytes) -> range:
    found = _load(PRODUCER_ID_BLOCK, data, "block_start", "block_end")
    return range(int(found["block_start"]), int(found["block_end"]) + 1)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _dump(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _load(path: str, data: bytes, *required: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise BarnabasError(f"The cluster's store holds no JSON at {path}: {error}.") from error
    if not isinstance(document, dict) or not all(name in document for name in required):
        raise BarnabasError(f"The cluster's store lacks {' or '.join(required)} at {path}.")
    return document
