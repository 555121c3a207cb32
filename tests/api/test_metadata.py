"""Metadata: brokers, topics by name and id, and creation by asking."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

UNKNOWN_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")
NOT_ASKED = -(2**31)


def _topics(house: House, version: int, *topics: Any, **more: Any) -> list[Any]:
    rows = [{"name": each} if isinstance(each, str) else each for each in topics]
    answer = house.ask("metadata", version, topics=rows, **more)
    found: list[Any] = answer["topics"]
    return found


def test_tells_the_broker_under_the_address_the_client_uses(house: House) -> None:
    answer = house.ask("metadata", 13, topics=[])
    assert answer["brokers"] == [
        {"node_id": 1, "host": "broker.example", "port": 19092, "rack": None}
    ]
    assert answer["controller_id"] == 1
    assert answer["cluster_id"] == house.cluster.image.cluster_id
    assert answer["topics"] == []


def test_tells_a_topic_whole(house: House) -> None:
    topic_id = house.topic("known", 2)
    partition = {
        "error_code": "none",
        "leader_id": 1,
        "leader_epoch": 0,
        "replica_nodes": [1],
        "isr_nodes": [1],
        "offline_replicas": [],
    }
    assert _topics(house, 12, "known") == [
        {
            "error_code": "none",
            "name": "known",
            "topic_id": topic_id,
            "is_internal": False,
            "partitions": [{**partition, "partition_index": n} for n in (0, 1)],
            "topic_authorized_operations": NOT_ASKED,
        }
    ]


@pytest.mark.parametrize(("version", "topics", "count"), [(0, [], 2), (1, [], 0), (1, None, 2)])
def test_all_topics(house: House, version: int, topics: Any, count: int) -> None:
    house.topic("a")
    house.topic("b")
    assert len(house.ask("metadata", version, topics=topics)["topics"]) == count


def test_a_topic_named_many_times_is_told_once(house: House) -> None:
    house.topic("known")
    assert len(_topics(house, 12, *["known", "other"] * 1000)) == 2


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "grüße", "x" * 250])
def test_invalid_names(house: House, name: str, create: bool) -> None:
    (topic,) = _topics(house, 12, name, allow_auto_topic_creation=create)
    assert (topic["error_code"], topic["name"]) == ("invalid_topic_exception", name)
    assert not house.cluster.image.topics


def test_by_id(house: House) -> None:
    topic_id = house.topic("known")
    known, unknown = _topics(
        house, 12, {"name": None, "topic_id": topic_id}, {"name": "x", "topic_id": UNKNOWN_ID}
    )
    assert (known["error_code"], known["name"]) == ("none", "known")
    assert (unknown["error_code"], unknown["name"]) == ("unknown_topic_id", None)
    assert unknown["topic_id"] == UNKNOWN_ID


@pytest.mark.parametrize("topic", [{"name": "a", "topic_id": UNKNOWN_ID}, {"name": None}])
def test_ids_and_null_names_are_refused_before_version_12(house: House, topic: Any) -> None:
    (refused,) = _topics(house, 10, topic)
    assert refused["error_code"] == "invalid_request"
    assert not house.cluster.image.topics


def test_neither_name_nor_id(house: House) -> None:
    (refused,) = _topics(house, 12, {"name": None})
    assert refused["error_code"] == "invalid_request"


def test_creates_a_topic_that_is_usable_at_once(house: House) -> None:
    (topic,) = _topics(house, 12, "fresh", allow_auto_topic_creation=True)
    assert topic["error_code"] == "none"
    assert topic["topic_id"] == house.cluster.image.topics["fresh"].id
    house.append("fresh", 1)
    assert house.partition("fresh").high_watermark == 1


def test_before_version_4_creation_is_not_asked(house: House) -> None:
    (topic,) = _topics(house, 3, "fresh")
    assert topic["error_code"] == "none"


def test_does_not_create_unless_the_request_allows(house: House) -> None:
    (topic,) = _topics(house, 12, "fresh", allow_auto_topic_creation=False)
    assert topic["error_code"] == "unknown_topic_or_partition"
    assert not house.cluster.image.topics


@pytest.mark.parametrize("house", [{"auto.create.topics.enable": "false"}], indirect=True)
def test_does_not_create_unless_the_broker_allows(house: House) -> None:
    (topic,) = _topics(house, 12, "fresh", allow_auto_topic_creation=True)
    assert topic["error_code"] == "unknown_topic_or_partition"
    assert not house.cluster.image.topics


@pytest.mark.parametrize("house", [{"default.replication.factor": "3"}], indirect=True)
def test_tells_why_a_topic_can_not_be_created(house: House) -> None:
    (topic,) = _topics(house, 12, "fresh", allow_auto_topic_creation=True)
    assert topic["error_code"] == "invalid_replication_factor"


def test_internal_topics_are_not_created_by_asking(house: House) -> None:
    (topic,) = _topics(house, 12, "__consumer_offsets", allow_auto_topic_creation=True)
    assert topic["error_code"] == "unknown_topic_or_partition"
    assert topic["is_internal"] is True
    assert not house.cluster.image.topics


def test_one_request_creates_a_bounded_number_and_the_next_goes_on(house: House) -> None:
    names = [f"t{n}" for n in range(150)]
    errors = [each["error_code"] for each in _topics(house, 12, *names)]
    assert errors == ["none"] * 100 + ["unknown_topic_or_partition"] * 50
    assert {each["error_code"] for each in _topics(house, 12, *names)} == {"none"}


def test_a_damaged_partition_has_no_leader(house: House) -> None:
    house.topic("hurt", 2)
    hosted = house.replicas.by_name["hurt"]
    del hosted.partitions[1]
    hosted.damaged[1] = "a segment is missing"
    sound, damaged = _topics(house, 12, "hurt")[0]["partitions"]
    assert (sound["error_code"], sound["leader_id"]) == ("none", 1)
    assert (damaged["error_code"], damaged["leader_id"]) == ("leader_not_available", -1)
    assert damaged["offline_replicas"] == [1]


def test_authorized_operations(house: House) -> None:
    house.topic("known")
    answer = house.ask(
        "metadata",
        8,
        topics=[{"name": "known"}],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert answer["topics"][0]["topic_authorized_operations"] == 3576
    assert answer["cluster_authorized_operations"] == 8096
    assert house.ask("metadata", 8, topics=[])["cluster_authorized_operations"] == NOT_ASKED
