"""WriteTxnMarkers: the ends of transactions, from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import T
from tests.api.group_talk import coordinate as coordinate_groups
from tests.api.group_talk import say
from tests.api.hot_path import batch, fetch_one
from tests.api.txn_talk import SETTINGS

from barnabas.log.verification import VERIFICATION_OFF
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import CONSUMER_OFFSETS
from barnabas.wire.records.batch import walk

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)

A, B = 1000, 2000


@pytest.fixture(autouse=True)
def topics(house: House) -> None:
    house.topic("t", 2)
    house.topic("u")


def marker(producer_id: int, epoch: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": [0]}],
        **more,
    }


def tell(house: House, *markers: dict[str, Any], version: int = 2) -> dict[int, Any]:
    """The results, by producer id, topic and partition."""
    answer = say(house, "write_txn_markers", version, markers=markers)
    return {
        each["producer_id"]: {
            topic["name"]: {
                row["partition_index"]: row["error_code"] for row in topic["partitions"]
            }
            for topic in each["topics"]
        }
        for each in answer["markers"]
    }


def open_transaction(house: House, producer_id: int, epoch: int = 0, index: int = 0) -> None:
    data = batch(
        b"v",
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    partition = house.partition("t", index)

    async def scene() -> None:
        view = memoryview(bytearray(data))
        partition.append(view, partition.log.check(view, T), T, VERIFICATION_OFF)

    house.run(scene())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_ends(house: House, version: int, committed: bool) -> None:
    open_transaction(house, A)
    assert house.partition("t").last_stable_offset == 0
    told = tell(house, marker(A, transaction_result=committed), version=version)
    assert told == {A: {"t": {0: "none"}}}
    row = fetch_one(house, "t", 0, isolation_level=1)
    assert row["last_stable_offset"] == row["high_watermark"] == 2
    assert bool(row["aborted_transactions"]) is not committed
    # In a segment of its own, since the record before it is of years ago.
    ((_, stored),) = walk(fetch_one(house, "t", 1, isolation_level=1)["records"])
    assert (stored.attributes, stored.producer_id, stored.base_sequence) == (48, A, -1)


@pytest.mark.parametrize("version", [1, 2])
def test_partitions_that_are_not_there(house: House, version: int) -> None:
    topics = [
        {"name": "t", "partition_indexes": [0, 9]},
        {"name": "nope", "partition_indexes": [0]},
        {"name": "a/b", "partition_indexes": [0]},
    ]
    unknown = "unknown_topic_or_partition"
    assert tell(house, marker(A, topics=topics), version=version) == {
        A: {"t": {0: "none", 9: unknown}, "nope": {0: unknown}, "a/b": {0: unknown}}
    }
    assert house.partition("t").log.end_offset == 1
    assert tell(house, marker(A, topics=[]), version=version) == {}
    assert tell(house, version=version) == {}


def test_a_damaged_partition_may_come_back(house: House) -> None:
    hosted = house.replicas.by_name["t"]
    hosted.partitions.pop(1)
    hosted.damaged[1] = "rotten"
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    assert tell(house, marker(A, topics=topics)) == {
        A: {"t": {0: "none", 1: "kafka_storage_error"}}
    }


def test_several_markers_of_several_producers(house: House) -> None:
    open_transaction(house, A)
    open_transaction(house, B)
    both = [{"name": "t", "partition_indexes": [0, 1]}, {"name": "u", "partition_indexes": [0]}]
    again = [{"name": "u", "partition_indexes": [0]}]
    told = tell(house, marker(A, topics=both), marker(B), marker(A, 1, topics=again))
    assert told == {A: {"t": {0: "none", 1: "none"}, "u": {0: "none"}}, B: {"t": {0: "none"}}}
    assert [house.partition("t", each).log.end_offset for each in (0, 1)] == [4, 1]
    assert house.partition("u").log.end_offset == 2
    assert house.partition("t").last_stable_offset == 4


def test_a_partition_named_twice_is_written_to_once(house: House) -> None:
    topics = [{"name": "t", "partition_indexes": [0, 0]}, {"name": "t", "partition_indexes": [0]}]
    assert tell(house, marker(A, topics=topics)) == {A: {"t": {0: "none"}}}
    assert house.partition("t").log.end_offset == 1


@pytest.mark.parametrize(
    ("epoch", "coordinator", "version", "code"),
    [
        (4, 5, 0, "invalid_producer_epoch"),
        (5, 4, 0, "transaction_coordinator_fenced"),
        (5, 5, 0, "none"),
        (5, 5, 2, "invalid_producer_epoch"),
        (6, 5, 2, "none"),
        (6, 4, 2, "transaction_coordinator_fenced"),
        (9, 99, 1, "none"),
    ],
)
def test_epochs(house: House, epoch: int, coordinator: int, version: int, code: str) -> None:
    tell(house, marker(A, 4, coordinator_epoch=5))
    open_transaction(house, A, 5)
    sent = marker(A, epoch, coordinator_epoch=coordinator, transaction_version=version)
    assert tell(house, sent) == {A: {"t": {0: code}}}
    assert house.partition("t").last_stable_offset == (3 if code == "none" else 1)


@pytest.mark.parametrize("nobody", [(-1, 0), (A, -1), (-1, -1)])
def test_a_marker_of_nobody_is_refused(house: House, nobody: tuple[int, int]) -> None:
    assert tell(house, marker(*nobody)) == {nobody[0]: {"t": {0: "unknown_server_error"}}}
    assert house.partition("t").log.end_offset == 0


def test_markers_for_groups_go_through_their_coordinator(house: House) -> None:
    topics = [{"name": CONSUMER_OFFSETS, "partition_indexes": [0, 77]}]
    unknown = "unknown_topic_or_partition"
    assert tell(house, marker(A, topics=topics)) == {
        A: {CONSUMER_OFFSETS: {0: unknown, 77: unknown}}
    }
    coordinate_groups(house)
    assert tell(house, marker(A, topics=topics)) == {
        A: {CONSUMER_OFFSETS: {0: "none", 77: unknown}}
    }
    assert house.partition(CONSUMER_OFFSETS).log.end_offset == 1


def test_a_coordinator_that_is_not_there_is_no_leader(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinate_groups(house)

    def refuse(*_: Any) -> None:
        raise KafkaError(ErrorCode.coordinator_load_in_progress)

    monkeypatch.setattr(house.services.groups, "write_marker", refuse)
    topics = [{"name": CONSUMER_OFFSETS, "partition_indexes": [0]}]
    assert tell(house, marker(A, topics=topics)) == {
        A: {CONSUMER_OFFSETS: {0: "not_leader_or_follower"}}
    }


def test_a_failed_disk_is_told_of(house: House) -> None:
    house.partition("t").log.fail("the disk has failed")
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    assert tell(house, marker(A, topics=topics)) == {
        A: {"t": {0: "kafka_storage_error", 1: "none"}}
    }


@pytest.mark.parametrize("flush", ["1"])
def test_it_is_answered_once_all_are_durable(house: House, flush: str) -> None:
    house.topic("synced", 2, flush_messages=flush)
    topics = [{"name": "synced", "partition_indexes": [0, 1]}]
    assert tell(house, marker(A, topics=topics)) == {A: {"synced": {0: "none", 1: "none"}}}
    for index in (0, 1):
        log = house.partition("synced", index).log
        assert log.recovery_point == log.end_offset == 1


def test_producers_are_described(house: House) -> None:
    def described() -> Any:
        topics = [{"name": "t", "partition_indexes": [0]}]
        answer = house.ask("describe_producers", 0, topics=topics)
        (row,) = answer["topics"][0]["partitions"][0]["active_producers"]
        return row

    open_transaction(house, A)
    row = described()
    assert (row["producer_epoch"], row["last_sequence"], row["last_timestamp"]) == (0, 0, T)
    assert (row["coordinator_epoch"], row["current_txn_start_offset"]) == (-1, 0)
    tell(house, marker(A, 0, coordinator_epoch=7))
    row = described()
    assert (row["producer_epoch"], row["last_sequence"]) == (0, 0)
    assert (row["coordinator_epoch"], row["current_txn_start_offset"]) == (7, -1)
    assert row["last_timestamp"] > T
    tell(house, marker(A, 1, coordinator_epoch=7, transaction_version=2))
    row = described()
    assert (row["producer_epoch"], row["last_sequence"]) == (1, -1)
