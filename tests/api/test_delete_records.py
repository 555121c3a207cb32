"""DeleteRecords: the log begins later from now on, and after a crash too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from barnabas.log.checkpoints import read_offsets
from barnabas.log.names import LOG_STARTS
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    from tests.api.conftest import House


def _delete(house: House, *offsets: int, topic: str = "trimmed", index: int = 0) -> list[Any]:
    partitions = [{"partition_index": index, "offset": offset} for offset in offsets]
    topics = [{"name": topic, "partitions": partitions}]
    answer = house.ask("delete_records", 2, topics=topics)
    rows = answer["topics"][0]["partitions"]
    return [(row["error_code"], row["low_watermark"]) for row in rows]


def _trimmed(house: House) -> None:
    house.topic("trimmed", 2)
    house.append("trimmed", *range(10))


def _stored_start(house: House) -> int | None:
    stored = read_offsets(house.files, f"{house.store.root}/{LOG_STARTS}")
    return stored.get(TopicPartition("trimmed", 0))


def test_the_start_moves_and_is_stored_before_the_answer(house: House) -> None:
    _trimmed(house)
    assert _delete(house, 4) == [("none", 4)]
    assert house.partition("trimmed").log.start_offset == 4
    assert _stored_start(house) == 4


def test_it_never_moves_back(house: House) -> None:
    _trimmed(house)
    _delete(house, 4)
    assert _delete(house, 2) == [("none", 4)]
    assert _delete(house, -1) == [("none", 10)]
    assert _stored_start(house) == 10


@pytest.mark.parametrize("offset", [11, 2**63 - 1, -2, -(2**63)])
def test_offsets_that_are_not_there(house: House, offset: int) -> None:
    _trimmed(house)
    assert _delete(house, offset) == [("offset_out_of_range", -1)]
    assert house.partition("trimmed").log.start_offset == 0


def test_nothing_beyond_the_high_watermark_goes(house: House) -> None:
    _trimmed(house)
    house.partition("trimmed").high_watermark = 6
    assert _delete(house, 7) == [("offset_out_of_range", -1)]
    assert _delete(house, -1) == [("none", 6)]


def test_an_empty_partition(house: House) -> None:
    _trimmed(house)
    assert _delete(house, -1, index=1) == [("none", 0)]


@pytest.mark.parametrize(
    ("topic", "index", "error"),
    [
        ("trimmed", 9, "unknown_topic_or_partition"),
        ("untrimmed", 0, "unknown_topic_or_partition"),
        ("a/b", 0, "unknown_topic_or_partition"),
        ("__consumer_offsets", 0, "invalid_topic_exception"),
    ],
)
def test_what_can_not_be_trimmed(house: House, topic: str, index: int, error: str) -> None:
    _trimmed(house)
    assert _delete(house, 0, topic=topic, index=index) == [(error, -1)]


@pytest.mark.parametrize(
    ("policy", "error"),
    [("compact", "policy_violation"), ("compact,delete", "none"), ("delete", "none")],
)
def test_a_topic_that_is_only_compacted_keeps_its_records(
    house: House, policy: str, error: str
) -> None:
    house.topic("keyed", cleanup_policy=policy)
    ((told, _),) = _delete(house, 0, topic="keyed")
    assert told == error


def test_a_partition_named_twice_is_answered_once(house: House) -> None:
    _trimmed(house)
    assert _delete(house, 3, 5) == [("none", 5)]


def test_what_could_not_be_stored_is_not_acknowledged(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    _trimmed(house)
    root, house.store.root = house.store.root, "/elsewhere"
    assert _delete(house, 4) == [("kafka_storage_error", -1)]
    house.store.root = root
    assert "could not be stored" in caplog.text
