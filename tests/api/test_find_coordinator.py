"""FindCoordinator: this broker for groups; who looks for others is told in the way it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


@pytest.mark.parametrize("version", [4, 5, 6])
def test_every_group_is_coordinated_here(house: House, version: int) -> None:
    keys = ["g", "h", "g", ""]
    answer = house.ask("find_coordinator", version, coordinator_keys=keys)
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


@pytest.mark.parametrize("version", range(4))
def test_one_key_in_the_old_form(house: House, version: int) -> None:
    answer = house.ask("find_coordinator", version, key="g")
    assert answer["error_code"] == "none"
    assert (answer["node_id"], answer["host"], answer["port"]) == (NODE_ID, _HOST, _PORT)
    assert answer.get("error_message", "NONE") == "NONE"


def test_the_topic_of_groups_is_made_when_it_is_first_needed(house: House) -> None:
    assert house.ask("find_coordinator", 6, coordinator_keys=[])["coordinators"] == []
    assert "__consumer_offsets" not in house.cluster.image.topics
    house.ask("find_coordinator", 6, coordinator_keys=["g"])
    made = house.cluster.image.topics["__consumer_offsets"]
    assert len(made.partitions) == 50
    assert house.settings("__consumer_offsets", "cleanup.policy", "segment.bytes") == {
        "cleanup.policy": ("compact", 1),
        "segment.bytes": ("104857600", 1),
    }
    house.ask("find_coordinator", 6, coordinator_keys=["g"])
    assert house.cluster.image.topics["__consumer_offsets"] is made


class _Full(EmbeddedCoordination):
    """A store on a disk that becomes full."""

    full = False

    async def commit(self, *operations: Op) -> None:
        if self.full:
            raise BarnabasError("No room.")
        await super().commit(*operations)


def test_there_is_no_coordinator_without_the_topic(build_house: Callable[..., House]) -> None:
    store = _Full(":memory:")
    house = build_house({}, coordination=store)
    store.full = True
    (told,) = house.ask("find_coordinator", 6, coordinator_keys=["g"])["coordinators"]
    assert (told["error_code"], told["node_id"]) == ("coordinator_not_available", -1)
    assert "No room" in told["error_message"]
    store.full = False
    (told,) = house.ask("find_coordinator", 6, coordinator_keys=["g"])["coordinators"]
    assert told["error_code"] == "none"


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (4, 1, "t", "transactional_id_authorization_failed"),
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
