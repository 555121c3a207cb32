"""DeleteTopics: by name and by id."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

UNKNOWN_ID = uuid.UUID("11111111-2222-3333-4444-555555555555")


def _delete(house: House, *topics: dict[str, Any]) -> list[Any]:
    found: list[Any] = house.ask("delete_topics", 6, topics=topics)["responses"]
    return found


def test_a_deleted_topic_is_gone(house: House) -> None:
    topic_id = house.topic("gone")
    (answer,) = _delete(house, {"name": "gone"})
    assert answer == {
        "name": "gone",
        "topic_id": topic_id,
        "error_code": "none",
        "error_message": None,
    }
    assert house.replicas.find("gone", 0) is None
    assert not house.cluster.image.topics


def test_by_id(house: House) -> None:
    topic_id = house.topic("gone")
    known, unknown = _delete(house, {"topic_id": topic_id}, {"topic_id": UNKNOWN_ID})
    assert (known["name"], known["error_code"]) == ("gone", "none")
    assert (unknown["name"], unknown["error_code"]) == (None, "unknown_topic_id")
    assert unknown["error_message"] == "This server does not host this topic ID."


@pytest.mark.parametrize("name", ["never-there", "a/b", ""])
def test_unknown_names(house: House, name: str) -> None:
    (answer,) = _delete(house, {"name": name})
    assert answer["error_code"] == "unknown_topic_or_partition"
    assert answer["error_message"] == "This server does not host this topic-partition."


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ({"name": "x", "topic_id": UNKNOWN_ID}, "both topic name and topic id"),
        ({"name": None, "topic_id": None}, "Neither topic name nor id"),
    ],
)
def test_malformed_topics_are_refused_once(house: House, topic: Any, message: str) -> None:
    (answer,) = _delete(house, *[topic] * 100)
    assert answer["error_code"] == "invalid_request"
    assert message in answer["error_message"]
    assert (answer["name"], answer["topic_id"]) == (topic["name"], topic["topic_id"])


def test_the_same_name_twice_is_refused(house: House) -> None:
    house.topic("kept")
    (answer,) = _delete(house, {"name": "kept"}, {"name": "kept"})
    assert (answer["error_code"], answer["error_message"]) == (
        "invalid_request",
        "Duplicate topic name.",
    )
    assert "kept" in house.cluster.image.topics


@pytest.mark.parametrize("house", [{"delete.topic.enable": "false"}], indirect=True)
@pytest.mark.parametrize(
    ("version", "error"),
    [(1, "invalid_request"), (2, "invalid_request"), (3, "topic_deletion_disabled")],
)
def test_deletion_can_be_disabled(house: House, version: int, error: str) -> None:
    house.topic("kept")
    (answer,) = house.ask("delete_topics", version, topic_names=["kept"])["responses"]
    assert answer["error_code"] == error
    assert "kept" in house.cluster.image.topics


def test_none(house: House) -> None:
    assert _delete(house) == []
