"""`barnabas log dump` of `__consumer_offsets`: what its records say, not their bytes."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.log_dump import Manner, dump_records
from barnabas.wire.records.record import encode_batch
from barnabas.wire.stored import (
    ConsumerGroupMember,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommit,
    OffsetValue,
    OwnedPartitions,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    encode,
)
from barnabas.wire.stored.consumer_protocol import (
    Subscription,
    encode_assignment,
    encode_subscription,
)

Pair = tuple[bytes | None, bytes | None]

TOPIC_ID = bytes(range(16))
COMMIT = OffsetCommit(
    "readers", "orders", 3, OffsetValue(offset=7, metadata="half\nway", commit_timestamp=9)
)
PLAIN = Manner(control=False, raw=False, as_json=False)
AS_JSON = Manner(control=False, raw=False, as_json=True)


def written(tmp_path: Path, *pairs: Pair, folder: str = "__consumer_offsets-0") -> str:
    place = tmp_path / folder
    place.mkdir()
    batch = encode_batch([(1_000, key, value, []) for key, value in pairs])
    (place / "00000000000000000000.log").write_bytes(batch)
    return str(place)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_commit_is_one_line_that_says_what_was_committed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = OffsetCommit("readers", "orders", 3, None)
    assert dump_records(written(tmp_path, encode(COMMIT), encode(gone)), PLAIN) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert 'OffsetCommit group="readers" topic="orders" partition=3  offset=7 ' in first
    assert 'metadata="half\\nway"' in first
    assert second.endswith('OffsetCommit group="readers" topic="orders" partition=3  removed')


def test_objects_hold_key_and_value_in_kafkas_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owned = OwnedPartitions(TOPIC_ID, (1,), (4,))
    current = CurrentMemberAssignmentValue(
        member_epoch=5, previous_member_epoch=4, state=0, assigned_partitions=(owned,)
    )
    target = TargetAssignmentMemberValue(topic_partitions=((TOPIC_ID, (1,)),))
    place = written(
        tmp_path,
        encode(COMMIT),
        encode(ConsumerGroupMember("g", "a", None)),
        encode(CurrentMemberAssignment("g", "a", current)),
        encode(TargetAssignmentMember("g", "a", target)),
    )
    assert dump_records(place, AS_JSON) == 0
    commit, member, assignment, aim = objects(capsys.readouterr().out)
    assert commit["key"] == {
        "kind": "OffsetCommit", "group": "readers", "topic": "orders", "partition": 3,
    }  # fmt: skip
    assert commit["value"] == {
        "offset": 7, "leader_epoch": -1, "metadata": "half\nway", "commit_timestamp": 9,
        "expire_timestamp": -1, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
    }  # fmt: skip
    assert (commit["topic"], commit["offset"]) == ("__consumer_offsets", 0)
    assert member["key"] == {"kind": "ConsumerGroupMemberMetadata", "group": "g", "member_id": "a"}
    assert member["value"] is None
    identifier = "AAECAwQFBgcICQoLDA0ODw"
    assert assignment["value"] == {
        "member_epoch": 5, "previous_member_epoch": 4, "state": 0,
        "assigned_partitions": [
            {"topic_id": identifier, "partitions": [1], "assignment_epochs": [4]}
        ],
        "partitions_pending_revocation": [],
    }  # fmt: skip
    assert aim["value"] == {"topic_partitions": [{"topic_id": identifier, "partitions": [1]}]}


def classic_group(protocol_type: str, subscription: bytes) -> Pair:
    member = GroupMetadataMember(
        member_id="a",
        client_id="c",
        client_host="/h",
        session_timeout=7,
        subscription=subscription,
        assignment=encode_assignment((("orders", (0,)),)),
    )
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=1, protocol="range", leader="a", members=(member,)
    )
    return encode(GroupMetadata("g", value))


def test_what_consumers_tell_each_other_is_shown_and_what_others_do_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subscription = encode_subscription(
        Subscription(topics=("orders",), owned_partitions=(("orders", (2,)),))
    )
    place = written(
        tmp_path,
        classic_group("consumer", subscription),
        classic_group("connect", subscription),
        classic_group("consumer", b"mine"),
    )
    assert dump_records(place, AS_JSON) == 0
    consumers, connect, odd = [
        each["value"]["members"][0] for each in objects(capsys.readouterr().out)
    ]
    assert consumers["subscription"]["topics"] == ["orders"]
    assert consumers["subscription"]["owned_partitions"] == [{"topic": "orders", "partitions": [2]}]
    assert consumers["assignment"] == [{"topic": "orders", "partitions": [0]}]
    assert base64.b64decode(connect["subscription"]["base64"]) == subscription
    assert odd["subscription"] == "mine"


def test_kinds_that_are_not_read_keep_their_number_and_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dump_records(written(tmp_path, (b"\x00\x04abc", None)), AS_JSON) == 0
    (shown,) = objects(capsys.readouterr().out)
    assert shown["key"] == {"kind": 4, "bytes": "\x00\x04abc"}
    assert shown["value"] is None


def test_a_damaged_record_is_named_counted_and_shown_as_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = written(tmp_path, (b"\x00\x02\x00\x09abc", b"x"), (None, b"y"), encode(COMMIT))
    assert dump_records(place, AS_JSON) == 2
    told = capsys.readouterr()
    assert [each["value"] for each in objects(told.out)[:2]] == ["x", "y"]
    assert "__consumer_offsets-0: offset 0: " in told.err
    assert "offset 1: a record without a key" in told.err
    assert dump_records(place, PLAIN) == 2
    assert "OffsetCommit" in capsys.readouterr().out


@pytest.mark.parametrize("manner", [AS_JSON._replace(raw=True), PLAIN._replace(raw=True)])
def test_raw_shows_the_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manner: Manner
) -> None:
    assert dump_records(written(tmp_path, encode(COMMIT)), manner) == 0
    out = capsys.readouterr().out
    assert "OffsetCommit" not in out
    assert "readers" in out


def test_records_of_other_topics_are_never_taken_for_those_of_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dump_records(written(tmp_path, encode(COMMIT), folder="orders-0"), PLAIN) == 0
    assert "OffsetCommit" not in capsys.readouterr().out
