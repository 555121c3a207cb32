"""Transactional batches: which are taken, and what the others are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.hot_path import batch, produce, produce_frame
from tests.api.txn_talk import (
    BUMPED,
    CLASSIC,
    SETTINGS,
    Identity,
    add,
    coordinate,
    describe,
    end,
    finish,
    init,
    send,
    values,
)

from barnabas.model.errors import DecodeError

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.fixture(autouse=True)
def coordinator(house: House) -> None:
    coordinate(house)
    house.topic("t", 2)


def _end(house: House, index: int = 0) -> int:
    return house.partition("t", index).log.end_offset


@pytest.mark.parametrize("version", range(3, CLASSIC + 1))
def test_older_clients_add_their_partitions_first(house: House, version: int) -> None:
    producer = init(house)
    told = send(house, producer, producer.batch(b"v"), version=version)
    assert told["error_code"] == (
        "invalid_txn_state" if version < CLASSIC else "transaction_abortable"
    )
    assert (told["base_offset"], told.get("log_start_offset", -1)) == (-1, -1)
    if version >= 8 and version < CLASSIC:
        assert told["error_message"]
    assert _end(house) == 0
    add(house, producer, ("t", 0))
    for sequence in range(3):
        told = send(house, producer, producer.batch(b"v", sequence=sequence), version=version)
        assert (told["error_code"], told["base_offset"]) == ("none", sequence)


@pytest.mark.parametrize("version", [BUMPED, 13])
def test_newer_clients_add_them_by_producing(house: House, version: int) -> None:
    producer = init(house)
    for sequence in range(3):  # The second and third come by the quick lane.
        told = send(house, producer, producer.batch(b"v", sequence=sequence), version=version)
        assert (told["error_code"], told["base_offset"]) == ("none", sequence)
    (transaction,) = describe(house, "t")
    assert transaction["transaction_state"] == "Ongoing"
    assert transaction["topics"] == [{"topic": "t", "partitions": [0]}]


def test_one_request_brings_batches_for_many_partitions(house: House) -> None:
    producer = init(house)
    sent = [("t", index, producer.batch(b"v")) for index in (1, 0)]
    rows = produce(house, BUMPED, *sent, transactional_id="t")
    assert [(row["index"], row["error_code"]) for row in rows] == [(1, "none"), (0, "none")]
    (transaction,) = describe(house, "t")
    assert transaction["topics"] == [{"topic": "t", "partitions": [0, 1]}]


def test_one_in_and_one_not(house: House) -> None:
    producer = init(house)
    add(house, producer, ("t", 1))
    sent = [("t", 0, producer.batch(b"v")), ("t", 1, producer.batch(b"v"))]
    rows = produce(house, CLASSIC, *sent, transactional_id="t")
    assert [row["error_code"] for row in rows] == ["transaction_abortable", "none"]
    assert (_end(house, 0), _end(house, 1)) == (0, 1)


@pytest.mark.parametrize("version", [3, CLASSIC, BUMPED, 13])
def test_without_a_transactional_id_nothing_of_the_request_is_taken(
    house: House, version: int
) -> None:
    producer = init(house)
    for sent in (
        [("t", 0, batch(b"plain")), ("t", 1, producer.batch(b"v"))],
        [("t", 1, producer.batch(b"v"))],
        [("t", 1, batch(b"v", transactional=True))],
    ):
        rows = produce(house, version, *sent)
        codes = {row["error_code"] for row in rows}
        assert codes == {"transactional_id_authorization_failed"}
        assert len(rows) == len(sent)
    assert (_end(house, 0), _end(house, 1)) == (0, 0)


def test_not_by_the_quick_lane_either(house: House) -> None:
    producer = init(house)
    same = batch(b"v", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0)
    assert produce(house, BUMPED, ("t", 0, same))[0]["error_code"] == "none"
    (row,) = produce(house, BUMPED, ("t", 0, producer.batch(b"v", sequence=1)))
    assert row["error_code"] == "transactional_id_authorization_failed"
    assert _end(house) == 1


def test_a_request_is_of_one_producer(house: House) -> None:
    one, two = init(house), init(house, "two")
    sent = [("t", 0, one.batch(b"v")), ("t", 1, two.batch(b"v"))]
    rows = produce(house, BUMPED, *sent, transactional_id="t")
    assert [row["error_code"] for row in rows] == ["invalid_producer_id_mapping"] * 2
    assert (_end(house, 0), _end(house, 1)) == (0, 0)


@pytest.mark.parametrize("version", [CLASSIC, BUMPED])
def test_other_batches_may_come_with_a_transactional_id(house: House, version: int) -> None:
    rows = produce(house, version, ("t", 0, batch(b"v")), transactional_id="whoever")
    assert [row["error_code"] for row in rows] == ["none"]
    producer = init(house)
    add(house, producer, ("t", 1))
    sent = [("t", 0, batch(b"v")), ("t", 1, producer.batch(b"v"))]
    rows = produce(house, version, *sent, transactional_id="t")
    assert [row["error_code"] for row in rows] == ["none", "none"]


@pytest.mark.parametrize("version", [CLASSIC, BUMPED])
def test_acks_are_as_with_any_batch(house: House, version: int) -> None:
    producer = init(house)
    add(house, producer, ("t", 0))
    assert send(house, producer, producer.batch(b"v"), version=version, acks=1)["error_code"] == (
        "none"
    )
    frame = produce_frame(
        house,
        version,
        ("t", 0, producer.batch(b"v", sequence=1)),
        acks=0,
        transactional_id="t",
    )

    async def unanswered() -> None:
        assert house.dispatch_once(house.peer, frame) is None

    house.run(unanswered())
    assert _end(house) == 2


def test_a_refusal_with_acks_0_closes_the_connection(house: House) -> None:
    zombie = init(house)
    init(house)
    frame = produce_frame(house, BUMPED, ("t", 0, zombie.batch(b"v")), acks=0, transactional_id="t")
    with pytest.raises(DecodeError, match="invalid_producer_epoch"):
        house.send(frame)


_STRANGERS: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": ""}, "invalid_request"),
    "unknown": ({"name": "x"}, "invalid_producer_id_mapping"),
    "another": ({"producer_id": 77}, "invalid_producer_id_mapping"),
    "future": ({"epoch": 5}, "invalid_producer_epoch"),
}


@pytest.mark.parametrize("version", [3, CLASSIC, BUMPED, 13])
@pytest.mark.parametrize("stranger", _STRANGERS)
def test_only_the_owner_writes(house: House, version: int, stranger: str) -> None:
    producer = init(house)
    add(house, producer, ("t", 0))
    change, error = _STRANGERS[stranger]
    pretender = Identity(**{**producer._asdict(), **change})
    told = send(house, pretender, pretender.batch(b"v"), version=version)
    assert (told["error_code"], told["base_offset"]) == (error, -1)
    assert _end(house) == 0


@pytest.mark.parametrize("version", [CLASSIC, BUMPED])
def test_zombies_do_not_write(house: House, version: int) -> None:
    zombie = init(house)
    producer = init(house)
    told = send(house, zombie, zombie.batch(b"v"), version=version)
    assert (told["error_code"], told["error_message"]) == ("invalid_producer_epoch", None)
    add(house, producer, ("t", 0))
    send(house, producer, producer.batch(b"v"), version=version)
    told = send(house, zombie, zombie.batch(b"v"), version=version)
    assert (told["error_code"], told["error_message"]) == ("invalid_producer_epoch", None)
    assert _end(house) == 1


@pytest.mark.parametrize("version", [3, 10, CLASSIC])
def test_where_nobody_coordinates_older_clients_come_again(house: House, version: int) -> None:
    producer = init(house)
    add(house, producer, ("t", 0))
    house.run(house.cluster.delete_topics(["__transaction_state"]))
    told = send(house, producer, producer.batch(b"v"), version=version)
    assert told["error_code"] == "not_enough_replicas"
    assert "NOT_COORDINATOR" in told.get("error_message", "NOT_COORDINATOR")


def test_where_nobody_coordinates_newer_clients_come_again_too(house: House) -> None:
    producer = init(house)
    house.run(house.cluster.delete_topics(["__transaction_state"]))
    told = send(house, producer, producer.batch(b"v"))
    assert told["error_code"] == "not_enough_replicas"


def test_verification_can_be_switched_off_for_older_clients(house: House) -> None:
    name = "transaction.partition.verification.enable"
    change = {"name": name, "config_operation": 0, "value": "false"}
    resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
    (answer,) = house.ask("incremental_alter_configs", 1, resources=[resource])["responses"]
    assert answer["error_code"] == "none"
    producer = init(house)
    for sequence in range(2):
        data = producer.batch(b"v", sequence=sequence)
        assert send(house, producer, data, version=CLASSIC)["error_code"] == "none"
    stranger = producer._replace(producer_id=77)
    assert send(house, stranger, stranger.batch(b"v"), version=CLASSIC)["error_code"] == "none"
    assert send(house, stranger, stranger.batch(b"v", sequence=1), index=1)["error_code"] == (
        "invalid_producer_id_mapping"
    )


def test_records_of_a_compacted_topic_are_looked_into(house: House) -> None:
    house.topic("compacted", cleanup_policy="compact")
    producer = init(house)
    keyless = send(house, producer, producer.batch(b"v"), topic="compacted")
    assert keyless["error_code"] == "invalid_record"
    for sequence in range(2):
        data = producer.batch(b"v", key=b"k", sequence=sequence)
        told = send(house, producer, data, topic="compacted")
        assert (told["error_code"], told["base_offset"]) == ("none", sequence)
    finish(house, producer, committed=True, version=5)
    assert values(house, "compacted") == [b"v", b"v"]


def test_after_the_end_an_older_client_adds_again(house: House) -> None:
    producer = init(house)
    add(house, producer, ("t", 0))
    send(house, producer, producer.batch(b"v"), version=CLASSIC)
    finish(house, producer, committed=True)
    told = send(house, producer, producer.batch(b"w", sequence=1), version=CLASSIC)
    assert told["error_code"] == "transaction_abortable"
    add(house, producer, ("t", 0))
    told = send(house, producer, producer.batch(b"w", sequence=1), version=CLASSIC)
    assert (told["error_code"], told["base_offset"]) == ("none", 2)


def test_after_the_end_a_newer_client_has_another_epoch(house: House) -> None:
    producer = init(house)
    send(house, producer, producer.batch(b"v"))
    answer = end(house, producer, committed=True, version=5)
    successor = producer._replace(epoch=answer["producer_epoch"])
    # At once: the coordinator is asked again until the markers are written.
    told = send(house, successor, successor.batch(b"w"))
    assert (told["error_code"], told["base_offset"]) == ("none", 2)
    told = send(house, producer, producer.batch(b"x", sequence=1))
    assert told["error_code"] == "invalid_producer_epoch"


def test_the_log_judges_sequences_as_ever(house: House) -> None:
    producer = init(house)
    told = send(house, producer, producer.batch(b"v", sequence=3))
    assert (told["error_code"], told["log_start_offset"]) == ("out_of_order_sequence_number", 0)
    assert send(house, producer, producer.batch(b"v"))["error_code"] == "none"
    repeated = send(house, producer, producer.batch(b"v"))
    assert (repeated["error_code"], repeated["base_offset"]) == ("none", 0)
    told = send(house, producer, producer.batch(b"v", sequence=3))
    assert (told["error_code"], told["log_start_offset"]) == ("out_of_order_sequence_number", 0)
    outside = batch(b"v", producer_id=producer.producer_id, producer_epoch=0, base_sequence=1)
    (row,) = produce(house, BUMPED, ("t", 0, outside), transactional_id="t")
    assert (row["error_code"], row["log_start_offset"]) == ("invalid_txn_state", 0)


def test_internal_topics_take_no_transactional_records_either(house: House) -> None:
    producer = init(house)
    told = send(house, producer, producer.batch(b"v", key=b"k"), topic="__transaction_state")
    assert told["error_code"] == "invalid_topic_exception"
    assert describe(house, "t")[0]["transaction_state"] == "Empty"
