"""FindCoordinator: this broker for groups and transactions; who looks for others is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import ADVERTISED, NODE_ID

from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import Op
from barnabas.world.embedded import EmbeddedCoordination

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api.conftest import House

_SHARE_KEY = "group:2zUPZg1zTn6vFzGgUyu2kA:0"
_HOST, _PORT = ADVERTISED


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", [4, 5, 6])
def test_everything_is_coordinated_here(house: House, version: int, key_type: int) -> None:
    keys = ["g", "h", "g", ""]
    answer = house.ask("find_coordinator", version, key_type=key_type, coordinator_keys=keys)
    assert answer["coordinators"] == [
        {
            "key": key,
            "node_id": NODE_ID,
            "host": _HOST,
            "port": _PORT,
            "error_code": "none",
            "error_message": "",
        }
        for key in keys
    ]


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (0, {"key": "g"}),
        *((version, {"key": "g", "key_type": kind}) for version in (1, 2, 3) for kind in (0, 1)),
    ],
)
def test_one_key_in_the_old_form(house: House, version: int, body: dict[str, Any]) -> None:
    answer = house.ask("find_coordinator", version, **body)
    assert answer["error_code"] == "none"
    assert (answer["node_id"], answer["host"], answer["port"]) == (NODE_ID, _HOST, _PORT)
    assert answer.get("error_message", "NONE") == "NONE"


_TOPICS = [
    (
        0,
        "__consumer_offsets",
        {"cleanup.policy": ("compact", 1), "segment.bytes": ("104857600", 1)},
    ),
    (
        1,
        "__transaction_state",
        {
            "cleanup.policy": ("compact", 1),
            "compression.type": ("uncompressed", 1),
            "min.insync.replicas": ("1", 1),
            "segment.bytes": ("104857600", 1),
            "unclean.leader.election.enable": ("false", 1),
        },
    ),
]


@pytest.mark.parametrize(("key_type", "topic", "settings"), _TOPICS)
def test_a_topic_is_made_when_it_is_first_needed(
    house: House, key_type: int, topic: str, settings: dict[str, tuple[str, int]]
) -> None:
    def find(*keys: str) -> Any:
        return house.ask("find_coordinator", 6, key_type=key_type, coordinator_keys=keys)

    assert find()["coordinators"] == []
    assert house.cluster.image.topics == {}
    find("g")
    assert house.cluster.image.topics.keys() == {topic}
    made = house.cluster.image.topics[topic]
    assert len(made.partitions) == 50
    assert house.settings(topic, *settings) == settings
    find("g")
    assert house.cluster.image.topics[topic] is made


class _Full(EmbeddedCoordination):
    """A store on a disk that becomes full."""

    full = False

    async def commit(self, *operations: Op) -> None:
        if self.full:
            raise BarnabasError("No room.")
        await super().commit(*operations)


@pytest.mark.parametrize("key_type", [0, 1])
def test_there_is_no_coordinator_without_the_topic(
    build_house: Callable[..., House], key_type: int
) -> None:
    store = _Full(":memory:")
    house = build_house({}, coordination=store)
    store.full = True
    asked = {"key_type": key_type, "coordinator_keys": ["g"]}
    (told,) = house.ask("find_coordinator", 6, **asked)["coordinators"]
    assert (told["error_code"], told["node_id"]) == ("coordinator_not_available", -1)
    assert "No room" in told["error_message"]
    store.full = False
    (told,) = house.ask("find_coordinator", 6, **asked)["coordinators"]
    assert told["error_code"] == "none"


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (4, 9, "g", "invalid_request"),
        (4, 2, _SHARE_KEY, "invalid_request"),
        (6, 2, _SHARE_KEY, "coordinator_not_available"),
        (6, 2, "nonsense", "invalid_request"),
        (6, -1, "g", "invalid_request"),
    ],
)
def test_who_gets_which_error(
    house: House, version: int, key_type: int, key: str, error: str
) -> None:
    answer = house.ask("find_coordinator", version, key_type=key_type, coordinator_keys=[key])
    (coordinator,) = answer["coordinators"]
    assert coordinator["error_message"]
    assert {**coordinator, "error_message": None} == {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": error,
        "error_message": None,
    }
