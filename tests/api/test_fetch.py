"""Fetch: what is read, from where, how much of it, and what is said of what can not be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
from tests.api.hot_path import (
    FETCH_VERSIONS,
    Row,
    SlowFiles,
    batch,
    fetch,
    fetch_one,
    fetch_rows,
    produce,
    stored,
    wanted,
)

from barnabas.wire.records.batch import parse_header, walk

if TYPE_CHECKING:
    from tests.api.conftest import House

BATCHES = [
    stored(batch(*[b"x" * 100] * count), offset)
    for offset, count in ((0, 3), (3, 3), (6, 3), (9, 1))
]
"""Offsets 0-2, 3-5, 6-8 and 9."""
ALL = b"".join(BATCHES)
END = 10
NOTHING: Row = {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1}
FILE = "/data/t-0/00000000000000000000.log"


def _fill(house: House, topic: str = "t", partitions: int = 1) -> None:
    house.topic(topic, partitions)
    for index in range(partitions):
        for data in BATCHES:
            produce(house, 12, (topic, index, stored(data, 0, -1)))


def _holding(offset: int) -> int:
    """Which of the batches holds an offset."""
    return next(n for n, data in enumerate(BATCHES) if parse_header(data).last_offset >= offset)


def _fitting(batches: Sequence[bytes], limit: int, *, at_least_one: bool = True) -> bytes:
    """Whole batches up to a limit; the first always, if there must be one."""
    taken = b""
    for data in batches:
        if len(taken) + len(data) > limit and (taken or not at_least_one):
            break
        taken += data
        if len(taken) > limit:
            break
    return taken


# --- from where ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_everything_at_every_version(house: House, version: int) -> None:
    _fill(house)
    answer = fetch(house, version, ("t", [wanted()]))
    assert (answer.get("error_code", "none"), answer.get("session_id", 0)) == ("none", 0)
    (topic,) = answer["responses"]
    topic_id = house.cluster.image.topics["t"].id
    assert topic.get("topic_id", topic_id) == topic_id
    assert topic.get("topic", "t") == "t"
    expected: Row = {
        "partition_index": 0,
        "error_code": "none",
        "high_watermark": END,
        "last_stable_offset": END,
        "aborted_transactions": None,
        "records": ALL,
    }
    if version >= 5:
        expected |= {"log_start_offset": 0}
    if version >= 11:
        expected |= {"preferred_read_replica": -1}
    if version >= 12:
        expected |= {
            "diverging_epoch": {"epoch": -1, "end_offset": -1},
            "current_leader": {"leader_id": -1, "leader_epoch": -1},
            "snapshot_id": {"end_offset": -1, "epoch": -1},
        }
    assert topic["partitions"] == [expected]


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_from_any_offset_whole_batches_come(house: House, version: int) -> None:
    _fill(house)
    for offset in range(END):
        row = fetch_one(house, "t", offset, version)
        assert row["records"] == b"".join(BATCHES[_holding(offset) :])
    assert fetch_one(house, "t", END, version)["records"] == b""


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("offset", [-1, -(2**63), END + 1, 2**63 - 1])
def test_out_of_range(house: House, version: int, offset: int) -> None:
    _fill(house)
    row = fetch_one(house, "t", offset, version)
    assert (row["error_code"], row["records"]) == ("offset_out_of_range", b"")
    assert row["aborted_transactions"] is None
    assert {name: row[name] for name in NOTHING.keys() & row.keys()}.items() <= NOTHING.items()


def test_an_empty_partition(house: House) -> None:
    house.topic("t")
    row = fetch_one(house, "t", 0)
    assert (row["error_code"], row["high_watermark"], row["records"]) == ("none", 0, b"")
    assert fetch_one(house, "t", 1)["error_code"] == "offset_out_of_range"


def test_below_the_start_of_the_log(house: House) -> None:
    _fill(house)
    house.partition("t").log.advance_start(4)
    assert fetch_one(house, "t", 3)["error_code"] == "offset_out_of_range"
    row = fetch_one(house, "t", 4)
    assert (row["log_start_offset"], row["records"]) == (4, b"".join(BATCHES[1:]))


def test_over_the_seams_of_segments(house: House) -> None:
    house.topic("t", segment_bytes="1048576")
    big = batch(bytes(400_000))
    for _ in range(6):
        produce(house, 12, ("t", 0, big))
    assert len(house.partition("t").log.segments) > 1
    offset, seen = 0, []
    while offset < 6:
        data = fetch_one(house, "t", offset)["records"]
        seen += [header.base_offset for _, header in walk(data)]
        offset = seen[-1] + 1
    assert seen == list(range(6))


# --- how much -----------------------------------------------------------------------------------

_LIMITS = sorted(
    {
        limit
        for count in range(5)
        for limit in (
            len(b"".join(BATCHES[:count])) - 1,
            len(b"".join(BATCHES[:count])),
            len(b"".join(BATCHES[:count])) + 1,
        )
        if limit >= 0
    }
    | {60, 61, 2**31 - 1}
)


@pytest.mark.parametrize("version", [4, 12, 18])
@pytest.mark.parametrize("name", ["max_bytes", "partition_max_bytes"])
def test_the_first_batch_comes_whole_and_no_other_in_part(
    house: House, version: int, name: str
) -> None:
    _fill(house)
    for limit in _LIMITS:
        for offset in (0, 4, 9):
            row = fetch_one(house, "t", offset, version, **{name: limit})
            assert row["records"] == _fitting(BATCHES[_holding(offset) :], limit)


def test_a_negative_max_bytes_is_none(house: House) -> None:
    _fill(house)
    assert fetch_one(house, "t", 0, max_bytes=-1)["records"] == BATCHES[0]


def test_a_negative_partition_max_bytes_is_refused(house: House) -> None:
    _fill(house, partitions=2)
    answer = fetch(house, 12, ("t", [wanted(0, partition_max_bytes=-1), wanted(1)]))
    bad, good = fetch_rows(answer)
    assert (bad["error_code"], bad["records"]) == ("invalid_request", b"")
    assert (good["error_code"], good["records"]) == ("none", ALL)


@pytest.mark.parametrize("house", [{"fetch.max.bytes": "1024"}], indirect=True)
def test_the_broker_has_a_limit_of_its_own(house: House) -> None:
    _fill(house)
    assert fetch_one(house, "t", 0)["records"] == _fitting(BATCHES, 1024)


@pytest.mark.parametrize("version", [4, 13])
def test_partitions_share_one_budget(house: House, version: int) -> None:
    _fill(house, partitions=4)
    offsets = {0: END, 1: 3, 2: 0, 3: 6}
    for limit in (0, 1, 400, 401, len(ALL) - 1, len(ALL), 2 * len(ALL), 10 * len(ALL)):
        for part_limit in (0, 500, 900, len(ALL)):
            rows = fetch_rows(
                fetch(
                    house,
                    version,
                    (
                        "t",
                        [
                            wanted(index, offset, partition_max_bytes=part_limit)
                            for index, offset in offsets.items()
                        ],
                    ),
                    max_bytes=limit,
                )
            )
            budget, size = limit, 0
            for row, offset in zip(rows, offsets.values(), strict=True):
                there = BATCHES[_holding(offset) :] if offset < END else []
                expected = _fitting(there, max(0, min(budget, part_limit)), at_least_one=size == 0)
                assert (row["error_code"], row["records"]) == ("none", expected)
                budget -= len(expected)
                size += len(expected)


def test_without_room_an_offset_is_still_looked_at(house: House) -> None:
    _fill(house, partitions=3)
    rows = fetch_rows(
        fetch(house, 12, ("t", [wanted(0), wanted(1, 99), wanted(2, 5)]), max_bytes=1)
    )
    assert [row["error_code"] for row in rows] == ["none", "offset_out_of_range", "none"]
    assert [len(row["records"]) for row in rows] == [len(BATCHES[0]), 0, 0]
    assert rows[2]["high_watermark"] == END


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize(("topic", "index"), [("nowhere", 0), ("t", 9), ("t", -1), ("a/b", 0)])
def test_what_is_not_here(house: House, version: int, topic: str, index: int) -> None:
    _fill(house)
    row = fetch_one(house, topic, 0, version, index)
    by_id = version >= 13 and topic != "t"
    assert row["error_code"] == ("unknown_topic_id" if by_id else "unknown_topic_or_partition")
    assert (row["aborted_transactions"], row["records"]) == ([], b"")
    assert {name: row[name] for name in NOTHING.keys() & row.keys()}.items() <= NOTHING.items()


def test_the_zero_id_is_no_topic(house: House) -> None:
    _fill(house)
    topics = [{"topic_id": None, "partitions": [wanted()]}]
    (topic,) = house.ask("fetch", 13, min_bytes=1, session_epoch=-1, topics=topics)["responses"]
    assert topic["topic_id"] is None
    assert topic["partitions"][0]["error_code"] == "unknown_topic_id"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_the_partitions_of_a_topic_come_together_and_each_once(house: House, version: int) -> None:
    _fill(house, partitions=2)
    answer = fetch(
        house,
        version,
        ("t", [wanted(0)]),
        ("nowhere", [wanted(0)]),
        ("t", [wanted(1, 99)]),
        ("t", [wanted(0, 9)]),
    )
    said = [
        [(row["partition_index"], row["error_code"], len(row["records"])) for row in rows]
        for rows in (topic["partitions"] for topic in answer["responses"])
    ]
    missing = "unknown_topic_id" if version >= 13 else "unknown_topic_or_partition"
    # The last that was said of a partition counts.
    assert said == [
        [(0, "none", len(BATCHES[3])), (1, "offset_out_of_range", 0)],
        [(0, missing, 0)],
    ]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_no_topics_and_no_session(house: House, version: int) -> None:
    assert fetch(house, version, max_wait_ms=60_000)["responses"] == []


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_nobody_is_a_follower_here(house: House, version: int) -> None:
    _fill(house)
    for replica_id in (0, 1, 5):
        row = fetch_one(house, "t", 0, version, replica_id=replica_id)
        assert (row["error_code"], row["records"]) == ("not_leader_or_follower", b"")
    for replica_id in (-1, -2):
        assert fetch_one(house, "t", 0, version, replica_id=replica_id)["records"] == ALL


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_isolation_levels(house: House, version: int) -> None:
    _fill(house)
    for level, aborted in ((0, None), (1, [])):
        row = fetch_one(house, "t", 0, version, isolation_level=level)
        assert (row["records"], row["aborted_transactions"]) == (ALL, aborted)
        assert row["last_stable_offset"] == END
    for level in (-1, 2, 7, 127):
        answer = fetch(house, version, ("t", [wanted()]), isolation_level=level, session_epoch=0)
        assert answer.get("error_code", "invalid_request") == "invalid_request"
        assert answer.get("session_id", 0) == 0
        assert [row["error_code"] for row in fetch_rows(answer)] == ["invalid_request"]
    assert len(house.services.sessions) == 0


# --- leader epochs ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [v for v in FETCH_VERSIONS if v >= 9])
def test_the_reader_must_know_the_present_epoch(house: House, version: int) -> None:
    house.topic("t")
    house.partition("t").leader_epoch = 3
    produce(house, 12, ("t", 0, batch(b"v")))
    said = {
        epoch: fetch_one(house, "t", 0, version, current_leader_epoch=epoch)["error_code"]
        for epoch in (-1, 0, 2, 3, 4)
    }
    assert said == {
        -1: "none",
        0: "fenced_leader_epoch",
        2: "fenced_leader_epoch",
        3: "none",
        4: "unknown_leader_epoch",
    }


@pytest.mark.parametrize("version", [v for v in FETCH_VERSIONS if v >= 12])
def test_where_logs_part(house: House, version: int) -> None:
    house.topic("t")
    for epoch, count in ((0, 4), (2, 3), (5, 1)):
        house.partition("t").leader_epoch = epoch
        for _ in range(count):
            produce(house, 12, ("t", 0, batch(b"v")))

    def said(last_epoch: int, offset: int) -> tuple[str, tuple[int, int], bool]:
        row = fetch_one(house, "t", offset, version, last_fetched_epoch=last_epoch)
        diverging = row["diverging_epoch"]
        end = (diverging["epoch"], diverging["end_offset"])
        return row["error_code"], end, bool(row["records"])

    together = (-1, -1)
    assert said(0, 2) == ("none", together, True)
    assert said(0, 4) == ("none", together, True)
    assert said(0, 5) == ("none", (0, 4), False)
    assert said(1, 3) == ("none", (0, 4), False)
    assert said(2, 7) == ("none", together, True)
    assert said(2, 8) == ("none", (2, 7), False)
    assert said(4, 7) == ("none", (2, 7), False)
    assert said(5, 8) == ("none", together, False)
    assert said(6, 8) == ("offset_out_of_range", together, False)


# --- damage and the disk ------------------------------------------------------------------------


def _flip(house: House, position: int, path: str = FILE) -> None:
    file = house.files.open(path)
    (byte,) = file.pread(1, position)
    file.pwrite(bytes([byte ^ 0x10]), position)
    file.close()


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_damage_is_told_and_never_served(house: House, version: int) -> None:
    _fill(house, partitions=2)
    _flip(house, len(BATCHES[0]) + 100)
    rows = fetch_rows(fetch(house, version, ("t", [wanted(0, 3), wanted(1, 0)])))
    assert [row["error_code"] for row in rows] == ["corrupt_message", "none"]
    assert [row["records"] for row in rows] == [b"", ALL]
    assert fetch_one(house, "t", 0, version)["records"] == BATCHES[0]
    assert fetch_one(house, "t", 4, version)["error_code"] == "corrupt_message"
    assert fetch_one(house, "t", 6, version)["records"] == b"".join(BATCHES[2:])


@pytest.mark.parametrize("version", [4, 12, 13, 18])
@pytest.mark.parametrize("period", [1, 2, 3, 5])
def test_cold_reads_give_the_same(
    build_house: Callable[..., House], version: int, period: int
) -> None:
    files = SlowFiles(period)
    warm, cold = build_house(), build_house(files=files)
    for house in (warm, cold):
        _fill(house, partitions=3)
    for offsets in [(0, 4, 9), (10, 0, 10), (99, 3, 0), (5, 99, 7)]:
        rows = [wanted(index, offset) for index, offset in enumerate(offsets)]
        answers = [fetch(house, version, ("t", rows)) for house in (warm, cold)]
        assert fetch_rows(answers[0]) == fetch_rows(answers[1])
    assert files.reads > 5


def test_the_first_batch_comes_whole_from_a_slow_disk_too(
    build_house: Callable[..., House],
) -> None:
    house = build_house(files=SlowFiles(1))
    _fill(house, partitions=2)
    small = [wanted(index, partition_max_bytes=1) for index in range(2)]
    rows = fetch_rows(fetch(house, 12, ("t", small)))
    assert [row["records"] for row in rows] == [BATCHES[0], b""]


@pytest.mark.parametrize("period", [1, 1000])
def test_a_disk_that_can_not_be_read(build_house: Callable[..., House], period: int) -> None:
    files = SlowFiles(period)
    house = build_house(files=files)
    _fill(house, partitions=2)
    files.broken.add(FILE)
    rows = fetch_rows(fetch(house, 12, ("t", [wanted(0), wanted(1)])))
    assert [row["error_code"] for row in rows] == ["kafka_storage_error", "none"]
    assert [row["records"] for row in rows] == [b"", ALL]


@pytest.mark.parametrize("period", [1, 1000])
def test_damage_on_a_slow_disk(build_house: Callable[..., House], period: int) -> None:
    house = build_house(files=SlowFiles(period))
    _fill(house, partitions=2)
    _flip(house, 100)
    rows = fetch_rows(fetch(house, 13, ("t", [wanted(0), wanted(1)])))
    assert [row["error_code"] for row in rows] == ["corrupt_message", "none"]
    assert rows[0]["high_watermark"] == -1
    assert rows[1]["records"] == ALL


def test_a_partition_whose_files_are_damaged(house: House) -> None:
    _fill(house, partitions=2)
    hosted = house.replicas.by_name["t"]
    del hosted.partitions[1]
    hosted.damaged[1] = "It is broken."
    rows = fetch_rows(fetch(house, 12, ("t", [wanted(1), wanted(0)])))
    assert [row["error_code"] for row in rows] == ["kafka_storage_error", "none"]
