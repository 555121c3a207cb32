"""Records of the offsets topic: the very bytes of Kafka, old versions, and any value at all."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from tests.wire.stored.strategies import stored_records

from barnabas.wire.stored import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegex,
    ConsumerGroupRegexValue,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
    Ignored,
    OffsetCommit,
    OffsetValue,
    OwnedPartitions,
    Stored,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadata,
    TargetAssignmentMetadataValue,
    decode,
    encode,
)

WRITTEN_BY_KAFKA = [
    (bytes.fromhex(key), None if value == "null" else bytes.fromhex(value))
    for key, value in (
        line.split()
        for line in (Path(__file__).parent / "written_by_kafka_4_3_1.txt").read_text().splitlines()
    )
]
"""A whole `__consumer_offsets-0`: confluent-kafka consumers in a classic group, in a consumer
group with a regular expression, and in one that moved from the one to the other."""

TOPIC_ID = bytes(range(16))
ID_HEX = TOPIC_ID.hex()


@pytest.mark.parametrize(("key", "value"), WRITTEN_BY_KAFKA)
def test_what_kafka_wrote_is_read_and_written_back_byte_for_byte(
    key: bytes, value: bytes | None
) -> None:
    record = decode(key, value)
    if isinstance(record, Ignored):
        assert (record.kind, value) == (4, None)
    else:
        assert encode(record) == (key, value)


def test_kafka_wrote_every_kind() -> None:
    kinds = {type(decode(key, value)) for key, value in WRITTEN_BY_KAFKA if value is not None}
    assert kinds == set(Stored.__args__)


@given(stored_records)
def test_a_record_is_read_as_it_was_written(record: Stored) -> None:
    assert decode(*encode(record)) == record


HAND_DERIVED: list[tuple[Stored, str, str]] = [
    (
        OffsetCommit(
            "g", "t", 7, OffsetValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
        ),
        "0001 0001 67 0001 74 00000007",
        "0004 0000000000000005 00000002 02 6d 0000000000000009 00",
    ),
    (
        OffsetCommit("g", "t", 7, OffsetValue(offset=5, commit_timestamp=9, topic_id=TOPIC_ID)),
        "0001 0001 67 0001 74 00000007",
        f"0004 0000000000000005 ffffffff 01 0000000000000009 01 00 10 {ID_HEX}",
    ),
    (
        OffsetCommit("g", "t", 7, OffsetValue(offset=5, commit_timestamp=9, expire_timestamp=11)),
        "0001 0001 67 0001 74 00000007",
        "0001 0000000000000005 0000 0000000000000009 000000000000000b",
    ),
    (
        GroupMetadata(
            "g",
            GroupMetadataValue(
                protocol_type="consumer",
                generation=3,
                protocol="range",
                leader="a",
                current_state_timestamp=9,
                members=(
                    GroupMetadataMember(
                        member_id="a",
                        group_instance_id="i",
                        client_id="c",
                        client_host="/h",
                        rebalance_timeout=6,
                        session_timeout=7,
                        subscription=b"\x01",
                        assignment=b"\x02\x03",
                    ),
                ),
            ),
        ),
        "0002 0001 67",
        (
            "0003 0008 636f6e73756d6572 00000003 0005 72616e6765 0001 61 0000000000000009 00000001"
            "0001 61 0001 69 0001 63 0002 2f68 00000006 00000007 00000001 01 00000002 0203"
        ),
    ),
    (
        ConsumerGroupMetadata("g", ConsumerGroupMetadataValue(epoch=4)),
        "0003 0001 67",
        "0000 00000004 00",
    ),
    (
        ConsumerGroupMetadata("g", ConsumerGroupMetadataValue(epoch=4, metadata_hash=-2)),
        "0003 0001 67",
        "0000 00000004 01 00 08 fffffffffffffffe",
    ),
    (
        ConsumerGroupMember(
            "g",
            "a",
            ConsumerGroupMemberValue(
                instance_id="i",
                client_id="c",
                client_host="h",
                subscribed_topic_names=("t", "u"),
                subscribed_topic_regex="x",
                rebalance_timeout_ms=5,
                server_assignor="s",
            ),
        ),
        "0005 0001 67 0001 61",
        "0000 02 69 00 02 63 02 68 03 02 74 02 75 02 78 00000005 02 73 01 00 01 00",
    ),
    (
        ConsumerGroupMember(
            "g",
            "a",
            ConsumerGroupMemberValue(
                client_id="c",
                client_host="h",
                classic_member_metadata=ClassicMemberMetadata(
                    session_timeout_ms=8, supported_protocols=(ClassicProtocol("p", b"\x09"),)
                ),
            ),
        ),
        "0005 0001 67 0001 61",
        "0000 00 00 02 63 02 68 01 00 ffffffff 00 01 00 0c 01 00000008 02 02 70 02 09 00 00",
    ),
    (
        TargetAssignmentMetadata(
            "g", TargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=9)
        ),
        "0006 0001 67",
        "0000 00000004 01 00 08 0000000000000009",
    ),
    (
        TargetAssignmentMember(
            "g", "a", TargetAssignmentMemberValue(topic_partitions=((TOPIC_ID, (1, 2)),))
        ),
        "0007 0001 67 0001 61",
        f"0000 02 {ID_HEX} 03 00000001 00000002 00 00",
    ),
    (
        CurrentMemberAssignment(
            "g",
            "a",
            CurrentMemberAssignmentValue(
                member_epoch=5,
                previous_member_epoch=4,
                state=1,
                assigned_partitions=(OwnedPartitions(TOPIC_ID, (1,), (3,)),),
                partitions_pending_revocation=(OwnedPartitions(TOPIC_ID, (2,), (4,)),),
            ),
        ),
        "0008 0001 67 0001 61",
        (
            f"0000 00000005 00000004 01 02 {ID_HEX} 02 00000001 01 00 05 02 00000003"
            f" 02 {ID_HEX} 02 00000002 01 00 05 02 00000004 00"
        ),
    ),
    (
        ConsumerGroupRegex(
            "g", "t.*", ConsumerGroupRegexValue(topics=("t1",), version=6, timestamp=9)
        ),
        "0010 0001 67 0003 742e2a",
        "0000 02 03 7431 0000000000000006 0000000000000009 00",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), HAND_DERIVED)
def test_bytes_are_those_of_the_definitions(record: Stored, key: str, value: str) -> None:
    assert encode(record) == (bytes.fromhex(key), bytes.fromhex(value))
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) == record
    assert encode(replace(record, value=None)) == (bytes.fromhex(key), None)
    assert decode(bytes.fromhex(key), None) == replace(record, value=None)


OFFSET_KEY = bytes.fromhex("0001 0001 67 0001 74 00000007")
PLAIN_OFFSET = OffsetValue(offset=5, metadata="m", commit_timestamp=9)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000 0000000000000005 0001 6d 0000000000000009", PLAIN_OFFSET),
        (
            "0001 0000000000000005 0001 6d 0000000000000009 000000000000000b",
            replace(PLAIN_OFFSET, expire_timestamp=11),
        ),
        ("0002 0000000000000005 0001 6d 0000000000000009", PLAIN_OFFSET),
        (
            "0003 0000000000000005 00000002 0001 6d 0000000000000009",
            replace(PLAIN_OFFSET, leader_epoch=2),
        ),
    ],
)
def test_older_versions_of_a_commit_are_read(value: str, expected: OffsetValue) -> None:
    record = OffsetCommit("g", "t", 7, expected)
    assert decode(OFFSET_KEY, bytes.fromhex(value)) == record
    # Kafka 0.8 gave its keys the number 0.
    assert decode(b"\x00\x00" + OFFSET_KEY[2:], bytes.fromhex(value)) == record


MEMBER = GroupMetadataMember(
    member_id="a",
    client_id="c",
    client_host="h",
    session_timeout=7,
    subscription=b"\x01",
    assignment=b"\x02",
)
GROUP = GroupMetadataValue(
    protocol_type="consumer", generation=3, protocol="range", leader="a", members=(MEMBER,)
)
GROUP_START = "0008 636f6e73756d6572 00000003 0005 72616e6765 0001 61"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            f"0000 {GROUP_START} 000000010001 61 0001 63 0001 68 00000007 00000001 01 00000001 02",
            GROUP,
        ),
        (
            (
                f"0001 {GROUP_START} 00000001"
                "0001 61 0001 63 0001 68 00000006 00000007 00000001 01 00000001 02"
            ),
            replace(GROUP, members=(replace(MEMBER, rebalance_timeout=6),)),
        ),
        (
            (
                f"0002 {GROUP_START} 0000000000000009 00000001"
                "0001 61 0001 63 0001 68 00000006 00000007 00000001 01 00000001 02"
            ),
            replace(
                GROUP, current_state_timestamp=9, members=(replace(MEMBER, rebalance_timeout=6),)
            ),
        ),
        (
            (
                "0004 09 636f6e73756d6572 00000003 06 72616e6765 02 61 0000000000000009 02"
                "02 61 02 69 02 63 02 68 00000006 00000007 02 01 02 02 00 00"
            ),
            replace(
                GROUP,
                current_state_timestamp=9,
                members=(replace(MEMBER, rebalance_timeout=6, group_instance_id="i"),),
            ),
        ),
    ],
)
def test_other_versions_of_a_classic_group_are_read(
    value: str, expected: GroupMetadataValue
) -> None:
    assert decode(bytes.fromhex("0002 0001 67"), bytes.fromhex(value)) == GroupMetadata(
        "g", expected
    )


def test_epochs_of_assignments_are_unknown_where_an_older_kafka_wrote() -> None:
    value = bytes.fromhex(f"0000 00000005 00000004 00 02 {ID_HEX} 02 00000001 00 01 00")
    record = decode(bytes.fromhex("0008 0001 67 0001 61"), value)
    assert isinstance(record, CurrentMemberAssignment)
    assert record.value is not None
    assert record.value.assigned_partitions == (OwnedPartitions(TOPIC_ID, (1,), None),)


def test_a_member_without_the_classic_field_has_no_classic_metadata() -> None:
    value = bytes.fromhex("0000 00 00 02 63 02 68 01 00 ffffffff 00 00")
    record = decode(bytes.fromhex("0005 0001 67 0001 61"), value)
    assert record == ConsumerGroupMember(
        "g", "a", ConsumerGroupMemberValue(client_id="c", client_host="h")
    )


@pytest.mark.parametrize("tags", ["01 05 02 abcd", "02 05 01 ab 07 00"])
def test_unknown_tagged_fields_are_passed_over(tags: str) -> None:
    value = bytes.fromhex(f"0004 0000000000000005 00000002 02 6d 0000000000000009 {tags}")
    assert decode(OFFSET_KEY, value) == OffsetCommit(
        "g", "t", 7, replace(PLAIN_OFFSET, leader_epoch=2)
    )
    assert decode(
        bytes.fromhex("0003 0001 67"), bytes.fromhex(f"0000 00000004 {tags}")
    ) == ConsumerGroupMetadata("g", ConsumerGroupMetadataValue(epoch=4))


def test_a_known_tagged_field_is_found_among_unknown_ones() -> None:
    value = bytes.fromhex(
        f"0004 0000000000000005 ffffffff 02 6d 0000000000000009 02 00 10 {ID_HEX} 05 01 ab"
    )
    assert decode(OFFSET_KEY, value) == OffsetCommit(
        "g", "t", 7, replace(PLAIN_OFFSET, topic_id=TOPIC_ID)
    )


@pytest.mark.parametrize("kind", [-1, 4, 9, 10, 11, 12, 13, 14, 15, 17, 22, 23, 32767])
def test_other_kinds_are_ignored_whatever_they_hold(kind: int) -> None:
    key = kind.to_bytes(2, "big", signed=True) + b"anything"
    assert decode(key, b"or other") == Ignored(kind)
    assert decode(key, None) == Ignored(kind)


@pytest.mark.parametrize(
    ("key", "version", "kind"),
    [
        ("0001 0001 67 0001 74 00000007", 5, 1),
        ("0001 0001 67 0001 74 00000007", -1, 1),
        ("0002 0001 67", 5, 2),
        ("0002 0001 67", -1, 2),
        ("0003 0001 67", 1, 3),
        ("0010 0001 67 0001 74", 1, 16),
    ],
)
def test_values_of_later_versions_are_ignored(key: str, version: int, kind: int) -> None:
    value = version.to_bytes(2, "big", signed=True) + bytes(40)
    assert decode(bytes.fromhex(key), value) == Ignored(kind)
