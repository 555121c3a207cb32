"""ListOffsets: offsets by time and by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

T = 1_700_000_000_000
LATEST, EARLIEST, MAX_TIMESTAMP, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6
NOWHERE = ("none", -1, -1, -1)


def _ask(house: House, timestamp: int, version: int = 11, index: int = 0, **more: Any) -> Any:
    """Error, timestamp, offset and leader epoch of one partition."""
    partition = {"partition_index": index, "timestamp": timestamp, **more}
    topics = [{"name": "listed", "partitions": [partition]}]
    answer = house.ask("list_offsets", version, replica_id=-1, topics=topics)
    (row,) = answer["topics"][0]["partitions"]
    return row["error_code"], row["timestamp"], row["offset"], row.get("leader_epoch")


def _listed(house: House) -> None:
    """Ten records, ten milliseconds apart, in four batches."""
    house.topic("listed", 2)
    times = [T + 10 * n for n in range(10)]
    for start in range(0, 10, 3):
        house.append("listed", *times[start : start + 3])


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, ("none", -1, 10, 0)),
        (EARLIEST, ("none", -1, 0, 0)),
        (MAX_TIMESTAMP, ("none", T + 90, 9, 0)),
        (LOCAL, ("none", -1, 0, 0)),
        (TIERED, NOWHERE),
        (PENDING, NOWHERE),
        (0, ("none", T, 0, 0)),
        (T + 40, ("none", T + 40, 4, 0)),
        (T + 41, ("none", T + 50, 5, 0)),
        (T + 90, ("none", T + 90, 9, 0)),
        (T + 91, NOWHERE),
        (2**63 - 1, NOWHERE),
        (-7, ("unsupported_version", -1, -1, -1)),
        (-(2**63), ("unsupported_version", -1, -1, -1)),
    ],
)
def test_offsets(house: House, timestamp: int, expected: Any) -> None:
    _listed(house)
    assert _ask(house, timestamp) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, ("none", -1, 0, 0)),
        (EARLIEST, ("none", -1, 0, 0)),
        (LOCAL, ("none", -1, 0, 0)),
        (MAX_TIMESTAMP, NOWHERE),
        (0, NOWHERE),
    ],
)
def test_offsets_of_an_empty_partition(house: House, timestamp: int, expected: Any) -> None:
    _listed(house)
    assert _ask(house, timestamp, index=1) == expected


@pytest.mark.parametrize(
    ("timestamp", "first"), [(MAX_TIMESTAMP, 7), (LOCAL, 8), (TIERED, 9), (PENDING, 11)]
)
def test_names_of_newer_versions(house: House, timestamp: int, first: int) -> None:
    _listed(house)
    assert _ask(house, timestamp, version=first - 1)[0] == "unsupported_version"
    assert _ask(house, timestamp, version=first)[0] == "none"


def test_max_timestamp_is_the_first_record_that_has_it(house: House) -> None:
    _listed(house)
    house.append("listed", T + 500, T + 500)
    assert _ask(house, MAX_TIMESTAMP) == ("none", T + 500, 10, 0)


def test_only_committed_records_are_found(house: House) -> None:
    _listed(house)
    house.partition("listed").high_watermark = 5
    assert _ask(house, LATEST)[2] == 5
    assert _ask(house, T + 40)[2] == 4
    assert _ask(house, T + 50) == NOWHERE


def test_replicas_see_the_end_of_the_log(house: House) -> None:
    _listed(house)
    house.partition("listed").high_watermark = 5
    topics = [{"name": "listed", "partitions": [{"partition_index": 0, "timestamp": LATEST}]}]
    answer = house.ask("list_offsets", 11, replica_id=5, topics=topics)
    assert answer["topics"][0]["partitions"][0]["offset"] == 10


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-1, "none"), (2, "none"), (1, "fenced_leader_epoch"), (3, "unknown_leader_epoch")],
)
def test_the_leader_epoch_is_checked(house: House, epoch: int, error: str) -> None:
    _listed(house)
    house.partition("listed").leader_epoch = 2
    assert _ask(house, LATEST, current_leader_epoch=epoch)[0] == error


def test_epochs_are_those_of_the_records(house: House) -> None:
    _listed(house)
    house.partition("listed").leader_epoch = 3
    house.append("listed", T + 200)
    assert _ask(house, EARLIEST)[3] == 0
    assert _ask(house, T + 90)[3] == 0
    assert _ask(house, T + 200) == ("none", T + 200, 10, 3)
    assert _ask(house, LATEST)[3] == 3


def test_what_is_not_here(house: House) -> None:
    _listed(house)
    asked = [{"partition_index": 0, "timestamp": LATEST}, {"partition_index": 9, "timestamp": 5}]
    topics = [{"name": name, "partitions": asked} for name in ("listed", "unlisted", "a/b")]
    answer = house.ask("list_offsets", 11, replica_id=-1, topics=topics)
    errors = [[row["error_code"] for row in each["partitions"]] for each in answer["topics"]]
    unknown = "unknown_topic_or_partition"
    assert errors == [["none", unknown], [unknown] * 2, [unknown] * 2]


@pytest.mark.parametrize("timestamp", [LATEST, 0])
def test_a_partition_named_twice_is_refused(house: House, timestamp: int) -> None:
    _listed(house)
    twice = [{"partition_index": 0, "timestamp": timestamp}] * 2
    topics = [{"name": "listed", "partitions": twice}] * 2
    answer = house.ask("list_offsets", 11, replica_id=-1, topics=topics)
    (topic,) = answer["topics"]
    assert [row["error_code"] for row in topic["partitions"]] == ["invalid_request"]


def test_damage_on_disk_is_an_error_not_an_offset(house: House) -> None:
    _listed(house)
    segment = house.partition("listed").log.segments[0]
    segment.file.pwrite(b"\xff", segment.size - 1)
    assert _ask(house, T + 90)[0] == "corrupt_message"
    assert _ask(house, T)[0] == "none"
