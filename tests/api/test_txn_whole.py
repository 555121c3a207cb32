"""Whole transactions by raw requests, in both generations: read, write, move offsets, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import coordinate as coordinate_groups
from tests.api.group_talk import say
from tests.api.hot_path import batch, fetch_one, produce
from tests.api.txn_talk import (
    BUMPED,
    CLASSIC,
    READ_COMMITTED,
    SETTINGS,
    Identity,
    add,
    coordinate,
    describe,
    end,
    finish,
    init,
    init_body,
    send,
    state,
    until,
    values,
)

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.fixture(autouse=True)
def coordinator(house: House) -> None:
    coordinate_groups(house)
    coordinate(house)
    house.topic("t", 2)
    house.topic("source")


class Generation:
    """How clients of one generation speak."""

    def __init__(self, *, bumped: bool) -> None:
        self.bumped = bumped
        self.produce = 13 if bumped else CLASSIC
        self.end = 5 if bumped else 3
        self.commit = 5 if bumped else 3

    def begin(self, house: House, producer: Identity, *partitions: tuple[str, int]) -> None:
        """The older ones say what they are going to write to."""
        if not self.bumped:
            assert set(add(house, producer, *partitions)) == {"none"}

    def commit_offset(self, house: House, producer: Identity, offset: int) -> str:
        """TxnOffsetCommit for group g, with what has to come before it."""
        if not self.bumped:
            asked = {**producer.body, "group_id": "g"}
            answer = say(house, "add_offsets_to_txn", 3, **asked)
            assert answer["error_code"] == "none"
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        body: dict[str, Any] = {
            **producer.body,
            "group_id": "g",
            "generation_id": -1,
            "topics": [{"name": "source", "partitions": [partition]}],
        }
        answer = say(house, "txn_offset_commit", self.commit, **body)
        (topic,) = answer["topics"]
        (row,) = topic["partitions"]
        code: str = row["error_code"]
        return code

    def finish(self, house: House, producer: Identity, *, committed: bool) -> Identity:
        """The producer as it is in its next transaction."""
        answer = finish(house, producer, committed=committed, version=self.end)
        return producer._replace(epoch=answer.get("producer_epoch", producer.epoch))


@pytest.fixture(params=[False, True], ids=["classic", "bumped"])
def generation(request: pytest.FixtureRequest) -> Generation:
    return Generation(bumped=request.param)


def _offset(house: House) -> int:
    topics = [{"name": "source", "partition_indexes": [0]}]
    group = {"group_id": "g", "member_epoch": -1, "topics": topics}
    (told,) = say(house, "offset_fetch", 9, groups=[group])["groups"]
    offset: int = told["topics"][0]["partitions"][0]["committed_offset"]
    return offset


def test_commits_appear_whole_and_aborts_never(house: House, generation: Generation) -> None:
    producer = init(house)
    committed: list[bytes] = []
    sequences = [0, 0]
    for number in range(4):
        is_committed = number % 2 == 0
        generation.begin(house, producer, ("t", 0), ("t", 1))
        for index in range(2):
            sequence = 0 if generation.bumped else sequences[index]
            data = producer.batch(b"%d" % number, sequence=sequence)
            told = send(house, producer, data, index=index, version=generation.produce)
            assert told["error_code"] == "none"
            sequences[index] += 1
        assert values(house) == values(house, index=1) == committed, "nothing of an open one"
        assert generation.commit_offset(house, producer, number + 1) == "none"
        producer = generation.finish(house, producer, committed=is_committed)
        if is_committed:
            committed.append(b"%d" % number)
        assert values(house) == values(house, index=1) == committed
        assert _offset(house) == (number + 1 if is_committed else number)


def test_the_last_stable_offset_waits_for_the_oldest(house: House, generation: Generation) -> None:
    slow, quick = init(house, "slow"), init(house, "quick")
    for producer in (slow, quick):
        generation.begin(house, producer, ("t", 0))
        data = producer.batch(producer.name.encode())
        told = send(house, producer, data, version=generation.produce)
        assert told["error_code"] == "none"
    generation.finish(house, quick, committed=True)
    row = fetch_one(house, "t", 0, isolation_level=READ_COMMITTED)
    assert (row["last_stable_offset"], row["high_watermark"]) == (0, 3)
    assert values(house) == []
    generation.finish(house, slow, committed=False)
    assert values(house) == [b"quick"]


def test_processes_that_share_a_producer(house: House, generation: Generation) -> None:
    driver = init(house)
    generation.begin(house, driver, ("t", 0), ("t", 1))
    for index in range(2):  # Each worker has partitions, and so sequences, of its own.
        for sequence in range(3):
            data = driver.batch(b"%d" % sequence, sequence=sequence)
            told = send(house, driver, data, index=index, version=generation.produce)
            assert told["error_code"] == "none"
    generation.finish(house, driver, committed=True)
    assert values(house) == values(house, index=1) == [b"0", b"1", b"2"]


def test_a_zombie_in_mid_transaction(house: House, generation: Generation) -> None:
    zombie = init(house)
    generation.begin(house, zombie, ("t", 0))
    send(house, zombie, zombie.batch(b"zombie"), version=generation.produce)
    assert generation.commit_offset(house, zombie, 7) == "none"
    answer = say(house, "init_producer_id", 5, **init_body("t"))
    assert answer["error_code"] == "concurrent_transactions", "the old one is aborted first"
    until(house, lambda: state(house) == "CompleteAbort")
    heir = init(house)
    late = send(house, zombie, zombie.batch(b"late", sequence=1), version=generation.produce)
    assert late["error_code"] == "invalid_producer_epoch"
    assert end(house, zombie, committed=True, version=generation.end)["error_code"] == (
        "producer_fenced"
    )
    generation.begin(house, heir, ("t", 0))
    assert send(house, heir, heir.batch(b"heir"), version=generation.produce)["error_code"] == (
        "none"
    )
    generation.finish(house, heir, committed=True)
    assert values(house) == [b"heir"]
    assert _offset(house) == -1


def test_a_topic_that_is_deleted_in_mid_transaction(house: House, generation: Generation) -> None:
    house.topic("doomed")
    producer = init(house)
    generation.begin(house, producer, ("t", 0), ("doomed", 0))
    for topic in ("t", "doomed"):
        told = send(house, producer, producer.batch(b"v"), topic, version=generation.produce)
        assert told["error_code"] == "none"
    house.run(house.cluster.delete_topics(["doomed"]))
    generation.finish(house, producer, committed=True)
    assert values(house) == [b"v"]


def test_what_is_not_written_can_end_too(house: House, generation: Generation) -> None:
    producer = init(house)
    generation.begin(house, producer, ("t", 0))
    if generation.bumped:
        answer = end(house, producer, committed=False, version=5)
        assert answer["error_code"] == "none", "it may not know whether anything was written"
    else:
        generation.finish(house, producer, committed=True)
        assert values(house) == []


def test_both_generations_take_turns(house: House) -> None:
    producer = init(house)
    add(house, producer, ("t", 0))
    told = send(house, producer, producer.batch(b"one"), version=CLASSIC)
    assert told["error_code"] == "none"
    finish(house, producer, committed=True)
    told = send(house, producer, producer.batch(b"two", sequence=1), version=BUMPED)
    assert told["error_code"] == "none"
    answer = finish(house, producer, committed=True, version=5)
    producer = producer._replace(epoch=answer["producer_epoch"])
    add(house, producer, ("t", 0))
    told = send(house, producer, producer.batch(b"three"), version=CLASSIC)
    assert told["error_code"] == "none"
    finish(house, producer, committed=True)
    assert values(house) == [b"one", b"two", b"three"]


def test_plain_records_in_between(house: House, generation: Generation) -> None:
    producer = init(house)
    generation.begin(house, producer, ("t", 0))
    produce(house, generation.produce, ("t", 0, batch(b"before")))
    send(house, producer, producer.batch(b"aborted"), version=generation.produce)
    produce(house, generation.produce, ("t", 0, batch(b"between")))
    assert values(house) == [b"before"]
    generation.finish(house, producer, committed=False)
    assert values(house) == [b"before", b"between"]
    (told,) = describe(house, "t")
    assert told["transaction_state"] == "CompleteAbort"
