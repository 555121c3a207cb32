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

OURS: Final = "/barnabas"
"""What Kafka does not have."""
CHANGES: Final = f"{OURS}/changes"
"""One node for every commit that brokers must learn of: they watch this, and nothing below."""
CHANGE: Final = f"{CHANGES}/change-"
LIVES: Final = f"{OURS}/lives"
"""One node for each broker that ever was; its version counts how often it has registered."""
TOPIC_IDS: Final = f"{OURS}/topic_ids"
"""One node for each topic, by its id: a write about a topic can require that it is still there,
and not another of the same name."""
LAST_COMMIT: Final = f"{OURS}/last_commit"
"""Written by every commit of the controller, so that it can find out what became of the last."""

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
    OURS,
    CHANGES,
    LIVES,
    TOPIC_IDS,
    LAST_COMMIT,
    PRODUCER_ID_BLOCK,
)
"""Nodes that begin without data, parents first: a node can not be made without them."""


def broker_path(broker: int) -> str:
    """A broker's registration."""
    return f"{BROKER_IDS}/{broker}"


def life_path(broker: int) -> str:
    """A broker's lives, and the directory it keeps its logs in."""
    return f"{LIVES}/{broker}"


def topic_id_path(topic_id: uuid.UUID) -> str:
    """Where it is noted that a topic of this id exists."""
    return f"{TOPIC_IDS}/{encode_uuid(topic_id)}"


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


def is_change(name: str) -> bool:
    """Whether a node below `CHANGES` is one of ours: they are told by their names what comes after
    what, and any other name would stand before all of them or behind."""
    prefix = CHANGE.rpartition("/")[2]
    number = name.removeprefix(prefix)
    return name.startswith(prefix) and number.isascii() and number.isdecimal()


def topic_config_name(topic: str) -> str:
    """How a change node names a topic's settings."""
    return f"topics/{topic}"


def broker_config_name(name: str) -> str:
    """How a change node names a broker's settings."""
    return f"brokers/{name}"


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


def encode_broker(node: BrokerNode, wall_ms: int, directory: str) -> bytes:
    """Kafka's registration, with the directory of the logs, the life, and whether it is leaving."""
    registration: dict[str, object] = {
        "version": 5,
        "host": node.host,
        "port": node.port,
        "endpoints": [f"PLAINTEXT://{_bracketed(node.host)}:{node.port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "timestamp": str(wall_ms),
        "features": {},
        "directory": directory,
        "life": node.life,
    }
    if node.rack is not None:
        registration["rack"] = node.rack
    if node.leaving:
        registration["leaving"] = True
    return _dump(registration)


def decode_broker(broker: int, data: bytes, created: int = 0) -> BrokerNode:
    """`created` is the node's own: the broker's epoch."""
    found = _load(broker_path(broker), data, "host", "port")
    return BrokerNode(
        broker,
        found["host"],
        found["port"],
        found.get("rack"),
        created,
        bool(found.get("leaving")),
        found.get("life", 0),
    )


def broker_number(parent: str, name: str) -> int:
    """Which broker a node below `parent` is about."""
    if not (name.isascii() and name.isdecimal()):
        raise _unusable(f"the name {parent}/{name}, which is no broker's number")
    return int(name)


def registered_directory(data: bytes) -> str | None:
    """The directory a registered broker keeps its logs in; None if it is no Barnabas."""
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found.get("directory") if isinstance(found, dict) else None


def encode_life(directory: str) -> bytes:
    return _dump({"version": 1, "directory": directory})


def decode_life(path: str, data: bytes) -> str:
    """The directory of a broker's last life."""
    return str(_load(path, data, "directory")["directory"])


def encode_pending_topic() -> bytes:
    """A topic that is being made or removed: there is none yet, or no more."""
    return _dump({"version": 3, "pending": True, "partitions": {}})


def is_pending(data: bytes) -> bool:
    """Whether a topic's node is one of a topic that is being made or removed."""
    return b'"pending":true' in data


def encode_topic(
    topic_id: uuid.UUID,
    replicas: Iterable[Sequence[int]],
    adding: Mapping[int, Sequence[int]] | None = None,
    removing: Mapping[int, Sequence[int]] | None = None,
) -> bytes:
    """`adding` and `removing`: of the partitions that are being moved, by number."""
    return _dump(
        {
            "version": 3,
            "topic_id": encode_uuid(topic_id),
            "partitions": {str(number): list(each) for number, each in enumerate(replicas)},
            "adding_replicas": _by_partition(adding or {}),
            "removing_replicas": _by_partition(removing or {}),
        }
    )


def _by_partition(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(number): list(each) for number, each in replicas.items()}


def decode_topic(topic: str, data: bytes) -> tuple[uuid.UUID, list[tuple[int, ...]]]:
    """The topic's id, and the replicas of its partitions by number."""
    found = _load(topic_path(topic), data, "topic_id", "partitions")
    partitions = found["partitions"]
    replicas = [tuple(partitions[str(number)]) for number in range(len(partitions))]
    return decode_uuid(found["topic_id"]), replicas


@lru_cache(maxsize=_STATES_REMEMBERED)
def encode_state(state: PartitionState, controller_epoch: int) -> bytes:
    """With the replicas, which the topic's node has, too: whoever reads them from another node, at
    another moment than the ISR, could believe what never was."""
    document: dict[str, object] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "controller_epoch": controller_epoch,
    }
    document["replicas"] = list(state.replicas)
    if state.eligible:
        document["eligible"] = list(state.eligible)
    if state.is_moving:
        document["adding_replicas"] = list(state.adding)
        document["removing_replicas"] = list(state.removing)
        document["original_replicas"] = list(state.original)
    if state.emptied:
        document["emptied"] = list(state.emptied)
    return _dump(document)


def decode_state(path: str, data: bytes, replicas: tuple[int, ...], version: int) -> PartitionState:
    """`version` is the node's own: it counts the changes of the state. `replicas` are the topic's,
    for states that were written when these did not tell theirs: then nothing was ever moved."""
    found = _load(path, data, "leader", "leader_epoch", "isr")
    return _the_same(
        PartitionState(
            found["leader"],
            found["leader_epoch"],
            tuple(found.get("replicas", replicas)),
            tuple(found["isr"]),
            version,
            *(tuple(found.get(name, ())) for name in _MAY_BE_MISSING),
        )
    )


_MAY_BE_MISSING: Final = (
    "eligible",
    "adding_replicas",
    "removing_replicas",
    "original_replicas",
    "emptied",
)
"""Fields of a state in the order of `PartitionState`."""


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


def decode_controller_epoch(data: bytes) -> int:
    if not (data.isascii() and data.isdigit()):
        raise _unusable(f"no number at {CONTROLLER_EPOCH}")
    return int(data)


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
        raise _unusable(f"no JSON at {path}") from error
    if not isinstance(document, dict) or not all(name in document for name in required):
        raise _unusable(f"no {' or '.join(required)} at {path}")
    return document


def _unusable(what: str) -> BarnabasError:
    return BarnabasError(
        f"The cluster's store holds {what}: it is damaged, or others write there too. Restore it, "
        "or give Barnabas a path of its own in it (zookeeper.connect=host:port/path)."
    )
