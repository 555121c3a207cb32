"""TxnOffsetCommit, and OffsetFetch beside it: at every version, and asked in wrong ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api import group_talk
from tests.api.group_talk import commit_body, join, say, settle
from tests.api.txn_talk import (
    SETTINGS,
    add,
    coordinate,
    describe,
    end,
    finish,
    init,
    init_body,
    state,
    until,
)

from barnabas.api.txn_offset_commit import _told
from barnabas.log.verification import Verifications
from barnabas.model.errors import ErrorCode
from barnabas.wire.records.batch import parse_header

if TYPE_CHECKING:
    from tests.api.conftest import House
    from tests.api.txn_talk import Identity

VERSIONS = range(6)
ADDS = 5
"""The first version that adds the group's partition to the transaction."""

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.fixture(autouse=True)
def coordinators(house: House) -> None:
    coordinate(house)
    group_talk.coordinate(house)
    house.topic("t", 3)


def body(producer: Identity, *offsets: tuple[int, int], **more: Any) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "note"}
        for index, offset in offsets
    ]
    return {
        **producer.body,
        "group_id": "g",
        "generation_id": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": partitions}],
        **more,
    }


def commit(
    house: House, version: int, producer: Identity, *offsets: tuple[int, int], **more: Any
) -> list[str]:
    answer = say(house, "txn_offset_commit", version, **body(producer, *offsets, **more))
    return [row["error_code"] for topic in answer["topics"] for row in topic["partitions"]]


def begin(house: House, version: int, name: str = "x", group: str = "g") -> Identity:
    """A producer that may commit for the group, by the rules of its generation."""
    producer = init(house, name)
    if version < ADDS:
        answer = say(house, "add_offsets_to_txn", 3, **producer.body, group_id=group)
        assert answer["error_code"] == "none"
    return producer


def fetched(
    house: House, *partitions: int, stable: bool = False, version: int = 9, group: str = "g"
) -> dict[int, int | str]:
    """The offset of each partition, or why there is none to be told."""
    topics = [{"name": "t", "partition_indexes": partitions}] if partitions else None
    groups = [{"group_id": group, "topics": topics, "member_epoch": -1}]
    answer = say(
        house,
        "offset_fetch",
        version,
        group_id=group,
        topics=topics,
        groups=groups,
        require_stable=stable,
    )
    told = answer["groups"][0] if version >= 8 else answer
    assert told["error_code"] == "none"
    return {
        row["partition_index"]: row["committed_offset"]
        if row["error_code"] == "none"
        else row["error_code"]
        for topic in told["topics"]
        for row in topic["partitions"]
    }


UNSTABLE = "unstable_offset_commit"


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_counts_when_the_transaction_is_committed(
    house: House, version: int, committed: bool
) -> None:
    say(house, "offset_commit", 8, **commit_body("g", "t", (0, 3)))
    producer = begin(house, version)
    assert commit(house, version, producer, (0, 10), (1, 11)) == ["none", "none"]
    (described,) = describe(house, "x")
    assert [each["topic"] for each in described["topics"]] == ["__consumer_offsets"]
    assert fetched(house, 0, 1, 2) == {0: 3, 1: -1, 2: -1}
    for fetch_version in (7, 8, 9):
        pending = fetched(house, 0, 1, 2, stable=True, version=fetch_version)
        assert pending == {0: UNSTABLE, 1: UNSTABLE, 2: -1}
        assert fetched(house, stable=True, version=fetch_version) == {0: UNSTABLE}
    assert fetched(house, 0, stable=True, version=6) == {0: 3}, "it can not be asked for yet"
    finish(house, producer, committed=committed, version=5 if version >= ADDS else 3)
    seen = {0: 10, 1: 11, 2: -1} if committed else {0: 3, 1: -1, 2: -1}
    assert fetched(house, 0, 1, 2) == fetched(house, 0, 1, 2, stable=True) == seen


@pytest.mark.parametrize("version", VERSIONS)
def test_every_commit_of_a_transaction_is_written(house: House, version: int) -> None:
    """They are alike in everything that tells a retried batch of a client from a new one."""
    producer = begin(house, version)
    for offset in (1, 2, 3):
        assert commit(house, version, producer, (0, offset)) == ["none"]
    finish(house, producer, committed=True, version=5 if version >= ADDS else 3)
    assert fetched(house, 0) == {0: 3}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_is_not_part_of_the_transaction(house: House, version: int) -> None:
    producer = init(house, "x")
    told = "none"
    if version < ADDS:
        told = "transaction_abortable" if version == 4 else "invalid_txn_state"
    assert commit(house, version, producer, (0, 5)) == [told]
    add(house, producer, ("t", 0))
    if version < ADDS:
        assert commit(house, version, producer, (0, 5)) == [told], "another one is"
    assert fetched(house, 0, stable=True) == {0: UNSTABLE if version >= ADDS else -1}


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_owner_of_the_transaction_commits(house: House, version: int) -> None:
    producer = begin(house, version)
    for stranger, error in (
        (producer._replace(epoch=9), "invalid_producer_epoch"),
        (producer._replace(epoch=-1), "invalid_producer_epoch"),
        (producer._replace(producer_id=77), "invalid_producer_id_mapping"),
        (producer._replace(producer_id=-1), "invalid_producer_id_mapping"),
        (producer._replace(producer_id=-1, epoch=-1), "invalid_producer_id_mapping"),
        (producer._replace(name="nobody"), "invalid_producer_id_mapping"),
        (producer._replace(name=""), "invalid_request"),
    ):
        assert commit(house, version, stranger, (0, 5), (1, 6)) == [error] * 2
    assert fetched(house, 0, 1, stable=True) == {0: -1, 1: -1}
    assert commit(house, version, producer, (0, 5)) == ["none"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_leads_in_another_epoch_when_the_answer_comes_wants_to_be_asked_again(
    house: House, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = begin(house, version)
    number = house.services.groups.partition_of("g")
    partition = house.partition("__consumer_offsets", number)
    for name in ("add_partitions", "verify_partitions"):
        real = getattr(house.services.transactions, name)

        def answer(ask: Any, real: Any = real) -> Any:
            # As `Partition._lead` does: a move that ends begins another epoch of the same leader.
            partition.leader_epoch += 1
            partition.log.producers.verifications = Verifications()
            return real(ask)

        monkeypatch.setattr(house.services.transactions, name, answer)
    assert commit(house, version, producer, (0, 5)) == ["not_coordinator"]


def test_a_producer_that_was_replaced_meanwhile(house: House) -> None:
    old = begin(house, ADDS)
    assert commit(house, ADDS, old, (0, 5)) == ["none"]
    first = say(house, "init_producer_id", 5, **init_body("x"))
    assert first["error_code"] == "concurrent_transactions", "first the old one's is aborted"
    until(house, lambda: state(house, "x") == "CompleteAbort")
    new = init(house, "x")
    assert new.epoch > old.epoch
    assert fetched(house, 0, stable=True) == {0: -1}
    assert commit(house, ADDS, old, (0, 6)) == ["invalid_producer_epoch"]
    assert commit(house, ADDS, new, (0, 7)) == ["none"]
    finish(house, new, committed=True, version=5)
    assert fetched(house, 0) == {0: 7}


@pytest.mark.parametrize("version", VERSIONS)
def test_after_the_end(house: House, version: int) -> None:
    producer = begin(house, version)
    commit(house, version, producer, (0, 5))
    answer = finish(house, producer, committed=True, version=5 if version >= ADDS else 3)
    if version < ADDS:
        told = "transaction_abortable" if version == 4 else "invalid_txn_state"
        assert commit(house, version, producer, (0, 6)) == [told]
    else:
        assert commit(house, version, producer, (0, 6)) == ["invalid_producer_epoch"]
        producer = producer._replace(epoch=answer["producer_epoch"])
        assert commit(house, version, producer, (0, 7)) == ["none"]
    assert fetched(house, 0) == {0: 5}


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions_are_refused_alone(house: House, version: int) -> None:
    producer = begin(house, version)
    topics = [
        {"name": "never", "partitions": [{"partition_index": 0, "committed_offset": 1}]},
        {
            "name": "t",
            "partitions": [
                {"partition_index": index, "committed_offset": 1} for index in (9, 0, -1)
            ],
        },
    ]
    unknown = "unknown_topic_or_partition"
    told = commit(house, version, producer, topics=topics)
    assert told == [unknown, unknown, "none", unknown]
    assert commit(house, version, producer, topics=topics[:1]) == [unknown]
    assert commit(house, version, producer, topics=[]) == []
    assert fetched(house, 0, 1, stable=True) == {0: UNSTABLE, 1: -1}


@pytest.mark.parametrize("version", VERSIONS)
def test_odd_groups_and_notes(house: House, version: int) -> None:
    producer = begin(house, version)
    assert commit(house, version, producer, (0, 5), group_id="") == ["invalid_group_id"]
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m" * 5000}
    topics = [{"name": "t", "partitions": [row, {**row, "partition_index": 1, **NO_NOTE}]}]
    told = commit(house, version, producer, topics=topics)
    assert told == ["offset_metadata_too_large", "none"]
    assert fetched(house, 0, 1, stable=True) == {0: -1, 1: UNSTABLE}


NO_NOTE = {"committed_metadata": None}


@pytest.mark.parametrize("version", range(3, 6))
def test_members_are_fenced(house: House, version: int) -> None:
    member = settle(house, "g")
    producer = begin(house, version)
    name, generation = member["member_id"], member["generation_id"]
    for member_id, claimed, instance, error in (
        (name, generation - 1, None, "illegal_generation"),
        (name, generation + 1, None, "illegal_generation"),
        ("stranger", generation, None, "unknown_member_id"),
        ("", generation, None, "unknown_member_id"),
        (name, generation, "unknown", "unknown_member_id"),
        (name, generation, None, "none"),
        ("", -1, None, "none"),
    ):
        more = {
            "member_id": member_id,
            "generation_id": claimed,
            "group_instance_id": instance,
        }
        assert commit(house, version, producer, (0, 5), **more) == [error]


@pytest.mark.parametrize("version", range(3, 6))
def test_a_generation_of_no_group(house: House, version: int) -> None:
    producer = begin(house, version)
    assert commit(house, version, producer, (0, 5), generation_id=1) == ["illegal_generation"]
    groups = say(house, "list_groups", 5)["groups"]
    assert groups == [], "a refusal leaves no group behind"


@pytest.mark.parametrize("version", range(3))
def test_before_members_could_be_named_nobody_asks_about_them(house: House, version: int) -> None:
    settle(house, "g")
    producer = begin(house, version)
    assert commit(house, version, producer, (0, 5)) == ["none"]


def test_a_static_member_that_was_replaced(house: House) -> None:
    old = settle(house, "g", group_instance_id="i")
    new = join(house, "g", group_instance_id="i")
    assert new["member_id"] != old["member_id"]
    producer = begin(house, ADDS)
    more = {
        "member_id": old["member_id"],
        "generation_id": old["generation_id"],
        "group_instance_id": "i",
    }
    assert commit(house, ADDS, producer, (0, 5), **more) == ["fenced_instance_id"]


def test_two_producers_commit_for_one_group(house: House) -> None:
    one, two = begin(house, ADDS, "one"), begin(house, ADDS, "two")
    commit(house, ADDS, one, (0, 10), (1, 10))
    commit(house, ADDS, two, (0, 20))
    finish(house, two, committed=True, version=5)
    assert fetched(house, 0, 1) == {0: 20, 1: -1}
    assert fetched(house, 0, 1, stable=True) == {0: UNSTABLE, 1: UNSTABLE}
    finish(house, one, committed=True, version=5)
    assert fetched(house, 0, 1, stable=True) == {0: 20, 1: 10}


def test_a_plain_commit_beside_it_stays(house: House) -> None:
    producer = begin(house, ADDS)
    commit(house, ADDS, producer, (0, 10))
    say(house, "offset_commit", 8, **commit_body("g", "t", (0, 2)))
    assert fetched(house, 0) == {0: 2}
    assert fetched(house, 0, stable=True) == {0: UNSTABLE}
    finish(house, producer, committed=True, version=5)
    assert fetched(house, 0, stable=True) == {0: 2}


def test_what_is_pending_can_be_deleted(house: House) -> None:
    producer = begin(house, ADDS)
    commit(house, ADDS, producer, (0, 10), (1, 11))
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    deleted = say(house, "offset_delete", 0, group_id="g", topics=topics)
    assert deleted["error_code"] == "none"
    assert fetched(house, 0, 1, stable=True) == {0: -1, 1: UNSTABLE}
    gone = say(house, "delete_groups", 2, groups_names=["g"])
    assert [each["error_code"] for each in gone["results"]] == ["none"]
    finish(house, producer, committed=True, version=5)
    assert fetched(house, 0, 1, stable=True) == {0: -1, 1: -1}


def test_nothing_that_is_pending_outlives_its_topic(house: House) -> None:
    producer = begin(house, ADDS)
    commit(house, ADDS, producer, (0, 10))
    say(house, "delete_topics", 6, topics=[{"name": "t", "topic_id": None}])
    house.topic("t", 3)
    assert fetched(house, 0, stable=True) == {0: -1}
    end(house, producer, committed=True, version=5)
    assert fetched(house, 0) == {0: -1}


def test_the_log_holds_what_kafkas_would(house: House) -> None:
    producer = begin(house, ADDS)
    commit(house, ADDS, producer, (0, 10), (1, 11))
    finish(house, producer, committed=True, version=5)
    services = house.services
    partition = services.replicas.find("__consumer_offsets", services.groups.partition_of("g"))
    assert partition is not None
    found = partition.read(0, 1 << 20, partition.high_watermark, at_least_one=True)
    data: Any = getattr(found, "data", None)
    first = parse_header(data)
    second = parse_header(data, first.size)
    assert (first.producer_id, first.producer_epoch) == producer[1:]
    assert (first.base_sequence, first.count) == (0, 2)
    assert (first.is_transactional, first.is_control) == (True, False)
    assert (second.producer_id, second.producer_epoch) == (producer[1], producer.epoch + 1)
    assert (second.base_sequence, second.count) == (-1, 1)
    assert second.is_control


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        ("coordinator_load_in_progress", 1, "coordinator_not_available"),
        ("coordinator_load_in_progress", 2, "coordinator_load_in_progress"),
        ("network_exception", 1, "coordinator_not_available"),
        ("network_exception", 5, "coordinator_load_in_progress"),
        ("not_leader_or_follower", 5, "not_coordinator"),
        ("kafka_storage_error", 5, "not_coordinator"),
        ("request_timed_out", 5, "coordinator_not_available"),
        ("concurrent_transactions", 5, "concurrent_transactions"),
        ("producer_fenced", 5, "invalid_producer_epoch"),
    ],
)
def test_errors_in_the_words_of_a_groups_coordinator(code: str, version: int, told: str) -> None:
    assert _told(ErrorCode[code], version) is ErrorCode[told]
