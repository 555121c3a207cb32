"""DescribeLogDirs: what lies on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House


def _sizes(house: House, topics: Any) -> dict[str, dict[int, int]]:
    answer = house.ask("describe_log_dirs", 5, topics=topics)
    (directory,) = answer["results"]
    assert (answer["error_code"], directory["error_code"]) == ("none", "none")
    assert directory["log_dir"] == "/data"
    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
    assert directory["is_cordoned"] is False
    return {
        topic["name"]: {
            row["partition_index"]: row["partition_size"] for row in topic["partitions"]
        }
        for topic in directory["topics"]
    }


def _on_disk(house: House) -> int:
    house.topic("on-disk", 2)
    house.topic("other")
    house.append("on-disk", 1, 2, 3)
    return house.partition("on-disk").log.size


def test_null_means_all(house: House) -> None:
    size = _on_disk(house)
    assert size > 0
    assert _sizes(house, None) == {"on-disk": {0: size, 1: 0}, "other": {0: 0}}


def test_an_empty_list_means_none(house: House) -> None:
    _on_disk(house)
    assert _sizes(house, []) == {}


def test_only_what_is_asked_for_and_here(house: House) -> None:
    size = _on_disk(house)
    asked = [
        {"topic": "on-disk", "partitions": [0, 9, 0]},
        {"topic": "never", "partitions": [0]},
        {"topic": "other", "partitions": [5]},
        {"topic": "on-disk", "partitions": [0]},
    ]
    assert _sizes(house, asked) == {"on-disk": {0: size}}


def test_leaders_lag_behind_nobody(house: House) -> None:
    _on_disk(house)
    answer = house.ask("describe_log_dirs", 5, topics=None)
    rows = [row for topic in answer["results"][0]["topics"] for row in topic["partitions"]]
    assert {(row["offset_lag"], row["is_future_key"]) for row in rows} == {(0, False)}


def test_a_directory_that_can_not_be_read(house: House, caplog: pytest.LogCaptureFixture) -> None:
    _on_disk(house)
    root, house.store.root = house.store.root, "/elsewhere"
    answer = house.ask("describe_log_dirs", 5, topics=None)
    house.store.root = root
    (directory,) = answer["results"]
    assert directory["error_code"] == "kafka_storage_error"
    assert (directory["topics"], directory["usable_bytes"]) == ([], -1)
    assert directory["total_bytes"] == -1
    assert "/elsewhere" in caplog.text


def test_a_broker_that_is_to_get_nothing_new_says_so(house: House) -> None:
    def cordon(operation: int, value: str | None) -> str:
        edit = {"name": "cordoned.log.dirs", "config_operation": operation, "value": value}
        resource = {"resource_type": 4, "resource_name": "1", "configs": [edit]}
        answer = house.ask("incremental_alter_configs", 1, resources=[resource])
        return str(answer["responses"][0]["error_code"])

    def is_cordoned() -> bool:
        (directory,) = house.ask("describe_log_dirs", 5, topics=None)["results"]
        return bool(directory["is_cordoned"])

    assert cordon(0, "*") == "none"
    assert is_cordoned()
    assert cordon(0, "/somewhere") == "invalid_request"
    assert cordon(1, None) == "none"
    assert not is_cordoned()
