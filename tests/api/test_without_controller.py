"""Requests that need the controller or the cluster's store, while neither can be had: clients get
an error that they try again after, and keep their connection."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from kio.static.primitive import i32Timedelta
from tests.api.conftest import KEYS, House, build, plain

from barnabas.api.forwarding import FORWARDED, FORWARDER
from barnabas.ports.coordination import CoordinationLostError, Op
from barnabas.wire.headers import request_header
from barnabas.wire.messages import encode_request, version_type
from barnabas.world.embedded import EmbeddedCoordination

NOT_CONTROLLER = "not_controller"
MINUTE = i32Timedelta.parse(timedelta(minutes=1))


class LosingStore(EmbeddedCoordination):
    """Does what is asked of it, and from some time on does not say so."""

    is_lost = False

    async def commit(self, *operations: Op) -> None:
        await super().commit(*operations)
        if self.is_lost:
            raise CoordinationLostError("the connection broke")


@pytest.fixture
def losing(build_house: Callable[..., House]) -> House:
    store = LosingStore(":memory:")
    house = build_house(coordination=store)
    store.is_lost = True
    return house


@pytest.fixture
def bystander(house: House) -> House:
    """A broker that is not the controller, and knows nobody who is."""
    house.cluster._office.resign()
    return house


CHANGES: Mapping[str, tuple[int, dict[str, Any]]] = {
    "create_topics": (7, {"topics": [{"name": "new", "num_partitions": 1}]}),
    "delete_topics": (6, {"topics": [{"name": "t"}]}),
    "create_partitions": (3, {"topics": [{"name": "t", "count": 9}]}),
    "alter_configs": (2, {"resources": [{"resource_type": 2, "resource_name": "t"}]}),
    "incremental_alter_configs": (1, {"resources": [{"resource_type": 2, "resource_name": "t"}]}),
    "elect_leaders": (2, {"topic_partitions": [{"topic": "t", "partitions": [0]}]}),
    "alter_partition_reassignments": (
        1,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
    ),
    "list_partition_reassignments": (0, {"topics": None}),
}


def codes(answer: Any) -> set[str]:
    """Every error code in an answer."""
    if isinstance(answer, dict):
        own = {answer["error_code"]} if "error_code" in answer else set()
        return own.union(*map(codes, answer.values()))
    return set().union(*map(codes, answer)) if isinstance(answer, list | tuple) else set()


def handed_on(house: House, api: str, version: int, body: dict[str, Any]) -> Any:
    """The answer to what another broker hands on."""
    key = KEYS[api]
    message = build(version_type(key, version, "request"), body)
    head = request_header(key, version, 42, FORWARDER)
    answer = house.send(head + encode_request(key, version, message))
    return plain(house._read(key, version, answer))


def test_every_change_is_tried() -> None:
    assert {KEYS[api] for api in CHANGES} == FORWARDED


@pytest.mark.parametrize("api", CHANGES)
def test_what_is_handed_on_to_the_wrong_broker_is_answered(bystander: House, api: str) -> None:
    version, body = CHANGES[api]
    assert codes(handed_on(bystander, api, version, body)) - {"none"} == {NOT_CONTROLLER}


@pytest.mark.parametrize("api", CHANGES)
def test_who_finds_no_controller_is_told_so(
    bystander: House, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.api.forwarding._PATIENCE_S", 0.2)
    version, body = CHANGES[api]
    assert codes(bystander.ask(api, version, **body)) - {"none"} == {NOT_CONTROLLER}


def test_an_election_of_all_leaders_does_not_fail_silently(bystander: House) -> None:
    answer = handed_on(bystander, "elect_leaders", 2, {"topic_partitions": None})
    assert answer["error_code"] == NOT_CONTROLLER


def test_metadata_is_answered_though_nobody_can_create_the_topic(bystander: House) -> None:
    topics = [{"name": "new", "topic_id": None}]
    answer = bystander.ask("metadata", 12, topics=topics, allow_auto_topic_creation=True)
    assert [each["error_code"] for each in answer["topics"]] == ["unknown_topic_or_partition"]


@pytest.mark.parametrize("kind", [0, 1])
def test_a_coordinator_whose_topic_can_not_be_made_yet_is_not_available(
    bystander: House, kind: int
) -> None:
    answer = bystander.ask("find_coordinator", 6, key_type=kind, coordinator_keys=["g"])
    assert codes(answer) == {"coordinator_not_available"}


def test_an_idempotent_producer_gets_its_id_later_when_the_store_does_not_answer(
    losing: House,
) -> None:
    answer = losing.ask("init_producer_id", 5, transactional_id=None)
    assert answer["error_code"] == "coordinator_load_in_progress"


def test_a_transactional_producer_does_too(build_house: Callable[..., House]) -> None:
    store = LosingStore(":memory:")
    house = build_house(coordination=store)
    house.ask("find_coordinator", 6, key_type=1, coordinator_keys=["t"])
    store.is_lost = True
    answer = house.ask("init_producer_id", 5, transactional_id="t", transaction_timeout=MINUTE)
    assert answer["error_code"] == "coordinator_load_in_progress"
