"""CreateTopics: what is created, what is refused and what is told about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House


def _create(house: House, *topics: dict[str, Any], version: int = 7, **more: Any) -> list[Any]:
    defaults: dict[str, Any] = {"num_partitions": 1, "replication_factor": 1}
    rows = [{**defaults, **each} for each in topics]
    found: list[Any] = house.ask("create_topics", version, topics=rows, **more)["topics"]
    return found


def _config(name: str, value: str | None) -> dict[str, Any]:
    return {"name": name, "value": value}


def _assigned(*assignments: tuple[int, list[int]]) -> dict[str, Any]:
    rows = [{"partition_index": index, "broker_ids": ids} for index, ids in assignments]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": rows}


def test_a_created_topic_is_told_whole(house: House) -> None:
    settings = [_config("retention.ms", "5000")]
    (topic,) = _create(house, {"name": "new", "num_partitions": 2, "configs": settings})
    assert topic["error_code"] == "none"
    assert topic["error_message"] is None
    assert topic["topic_id"] == house.cluster.image.topics["new"].id
    assert (topic["num_partitions"], topic["replication_factor"]) == (2, 1)
    told = {each["name"]: each for each in topic["configs"]}
    assert told["retention.ms"]["value"] == "5000"
    assert told["retention.ms"]["config_source"] == 1
    assert told["cleanup.policy"] == {
        "name": "cleanup.policy",
        "value": "delete",
        "read_only": False,
        "config_source": 5,
        "is_sensitive": False,
    }
    assert house.partition("new", 1).high_watermark == 0


@pytest.mark.parametrize("house", [{"num.partitions": "3"}], indirect=True)
def test_defaults(house: House) -> None:
    (topic,) = _create(house, {"name": "new", "num_partitions": -1, "replication_factor": -1})
    assert (topic["num_partitions"], topic["replication_factor"]) == (3, 1)


def test_validate_only_creates_nothing(house: House) -> None:
    (topic,) = _create(house, {"name": "new", "num_partitions": 3}, validate_only=True)
    assert (topic["error_code"], topic["num_partitions"]) == ("none", 3)
    assert not house.cluster.image.topics


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": ""}, "invalid_topic_exception"),
        ({"name": "a/b"}, "invalid_topic_exception"),
        ({"name": "x" * 250}, "invalid_topic_exception"),
        ({"name": "there"}, "topic_already_exists"),
        ({"num_partitions": 0}, "invalid_partitions"),
        ({"num_partitions": -2}, "invalid_partitions"),
        ({"num_partitions": 2**31 - 1}, "invalid_partitions"),
        ({"replication_factor": 0}, "invalid_replication_factor"),
        ({"replication_factor": -2}, "invalid_replication_factor"),
        ({"replication_factor": 3}, "invalid_replication_factor"),
        ({**_assigned((0, [1])), "num_partitions": 1}, "invalid_request"),
        ({**_assigned((0, [1])), "replication_factor": 1}, "invalid_request"),
        (_assigned((0, [9])), "invalid_replica_assignment"),
        (_assigned((1, [1])), "invalid_replica_assignment"),
        (_assigned((0, [])), "invalid_replica_assignment"),
        (_assigned((0, [1, 1])), "invalid_replica_assignment"),
        (_assigned((0, [1]), (0, [1])), "invalid_replica_assignment"),
        ({"configs": [_config("no.such.config", "1")]}, "invalid_config"),
        ({"configs": [_config("retention.ms", "soon")]}, "invalid_config"),
        ({"configs": [_config("retention.ms", None)]}, "invalid_config"),
        ({"configs": [_config("cleanup.policy", "shred")]}, "invalid_config"),
    ],
)
def test_refusals_say_why_and_create_nothing(
    house: House, change: dict[str, Any], error: str
) -> None:
    house.topic("there")
    (topic,) = _create(house, {"name": "new", **change})
    assert topic["error_code"] == error
    assert topic["error_message"]
    assert (topic["topic_id"], topic["num_partitions"]) == (None, -1)
    assert set(house.cluster.image.topics) == {"there"}


def test_assignments(house: House) -> None:
    (topic,) = _create(house, {"name": "new", **_assigned((1, [1]), (0, [1]))})
    assert (topic["error_code"], topic["num_partitions"]) == ("none", 2)


def test_the_same_name_twice_is_refused_and_the_others_go_on(house: House) -> None:
    twice = {"name": "twice"}
    answers = _create(house, twice, {"name": "another"}, twice)
    errors = {each["name"]: (each["error_code"], each["error_message"]) for each in answers}
    assert errors == {
        "twice": ("invalid_request", "Duplicate topic name."),
        "another": ("none", None),
    }
    assert set(house.cluster.image.topics) == {"another"}


def test_of_a_setting_given_twice_the_last_counts(house: House) -> None:
    settings = [_config("retention.ms", "1"), _config("retention.ms", "2")]
    _create(house, {"name": "new", "configs": settings})
    assert house.settings("new", "retention.ms") == {"retention.ms": ("2", 1)}


def test_no_topics(house: House) -> None:
    assert _create(house) == []


def test_one_request_creates_a_bounded_number(house: House) -> None:
    topics = [{"name": f"t{n}"} for n in range(1001)]
    answers = _create(house, *topics, validate_only=True)
    assert {each["error_code"] for each in answers} == {"policy_violation"}
    assert len(answers) == 1001
    answers = _create(house, *topics[:1000], topics[0], version=4, validate_only=True)
    assert [each["error_code"] for each in answers].count("none") == 999
