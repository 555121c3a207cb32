"""Requests of group members as plain bodies, and stages set for scenarios: groups in a state."""

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.compat.clients.group_probe import GroupProbe
from tests.compat.raw import Plain

LONG_MS: Final = 60_000
JOIN: Final = 9
SYNC: Final = 5
BEAT: Final = 4
LEAVE: Final = 5


def subscription(*topics: str) -> bytes:
    """What a consumer puts into JoinGroup: version 0, the topics, no user data."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def assigned(topic: str, *partitions: int) -> bytes:
    """What a consumer's leader puts into SyncGroup for one member: version 0, one topic."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + name + numbers + struct.pack(">i", -1)


def join(group: str, member: str = "", **options: Any) -> Plain:
    """A JoinGroup body; `protocols` are names, or (name, metadata)."""
    protocols: Sequence[Any] = options.get("protocols", ("range",))
    pairs = [one if isinstance(one, tuple) else (one, b"meta") for one in protocols]
    return {
        "group_id": group,
        "member_id": member,
        "group_instance_id": options.get("instance"),
        "session_timeout": options.get("session", LONG_MS),
        "rebalance_timeout": options.get("rebalance", LONG_MS),
        "protocol_type": options.get("protocol_type", "consumer"),
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in pairs],
        "reason": options.get("reason"),
    }


def sync(group: str, generation: int, member: str, **options: Any) -> Plain:
    """A SyncGroup body; `assignments` maps member ids to bytes."""
    rows = options.get("assignments", {})
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": options.get("instance"),
        "protocol_type": options.get("protocol_type", "consumer"),
        "protocol_name": options.get("protocol_name", "range"),
        "assignments": [{"member_id": key, "assignment": rows[key]} for key in rows],
    }


def beat(group: str, generation: int, member: str, instance: str | None = None) -> Plain:
    """A Heartbeat body."""
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
    }


def leave(group: str, *members: tuple[str, str | None]) -> Plain:
    """A LeaveGroup body for member ids with instance ids; the old form takes the first."""
    rows = [{"member_id": member, "group_instance_id": instance} for member, instance in members]
    return {"group_id": group, "members": rows, "member_id": members[0][0] if members else ""}


def commit(group: str, topics: dict[str, Any], **options: Any) -> Plain:
    """An OffsetCommit body: topics as {name or id: {partition: offset or (offset, metadata)}}."""
    rows = []
    for topic, partitions in topics.items():
        parts = []
        for number, value in partitions.items():
            offset, metadata = value if isinstance(value, tuple) else (value, "")
            parts.append(
                {
                    "partition_index": number,
                    "committed_offset": offset,
                    "committed_leader_epoch": options.get("leader_epoch", -1),
                    "committed_metadata": metadata,
                }
            )
        rows.append(
            {"name": topic, "topic_id": options.get("topic_id", topic), "partitions": parts}
        )
    return {
        "group_id": group,
        "generation_id_or_member_epoch": options.get("generation", -1),
        "member_id": options.get("member", ""),
        "group_instance_id": options.get("instance"),
        "retention_time": options.get("retention", -1),
        "topics": rows,
    }


def fetch(group: str, topics: dict[str, Sequence[int]] | None, **options: Any) -> Plain:
    """An OffsetFetch body in both forms: one group, or a list of one."""
    rows = None
    if topics is not None:
        rows = [
            {"name": name, "topic_id": options.get("topic_id", name), "partition_indexes": numbers}
            for name, numbers in topics.items()
        ]
    row = {
        "group_id": group,
        "member_id": options.get("member"),
        "member_epoch": options.get("epoch", -1),
        "topics": rows,
    }
    stable = options.get("require_stable", False)
    return {"group_id": group, "topics": rows, "groups": [row], "require_stable": stable}


@dataclass
class Stable:
    """A group whose members all have their assignment."""

    group: str
    generation: int
    ids: list[str]


def given_id(probe: GroupProbe, group: str, who: str, **options: Any) -> str:
    """A member id that the broker gave and that has not joined with it yet."""
    answer = probe.quietly("join_group", JOIN, join(group, **options), who)
    if answer.get("error_code") != "MEMBER_ID_REQUIRED":
        raise AssertionError(f"cannot set the stage: {answer}")
    member: str = answer["member_id"]
    probe.names.tidy(member)
    return member


def stable(probe: GroupProbe, group: str, count: int = 1, **options: Any) -> Stable:
    """A group of `count` members a, b, ... in Stable: a leads, everybody has an assignment."""
    made = joined(probe, group, count, **options)
    shares = {
        member: options.get("share", f"for {n}".encode()) for n, member in enumerate(made.ids)
    }
    for who, member in zip("abcdefgh", made.ids, strict=False):
        rows = shares if who == "a" else {}
        body = sync(group, made.generation, member, assignments=rows, **_sync_options(options))
        probe.must("sync_group", SYNC, body, who)
    return made


def _sync_options(options: dict[str, Any]) -> dict[str, Any]:
    first: Any = options.get("protocols", ("range",))[0]
    name = first[0] if isinstance(first, tuple) else first
    return {"protocol_name": name, "protocol_type": options.get("protocol_type", "consumer")}


def joined(probe: GroupProbe, group: str, count: int, **options: Any) -> Stable:
    """A group of `count` members in CompletingRebalance: all joined, nobody has synced."""
    people = "abcdefgh"[:count]
    ids = [given_id(probe, group, who, **options) for who in people]
    answer = probe.must("join_group", JOIN, join(group, ids[0], **options), "a")
    generation = answer["generation_id"]
    if count == 1:
        return Stable(group, generation, ids)
    waiting = [
        probe.begin("join_group", JOIN, join(group, member, **options), who)
        for who, member in list(zip(people, ids, strict=True))[1:]
    ]
    answer = probe.must("join_group", JOIN, join(group, ids[0], **options), "a")
    for pending in waiting:
        probe.collect(pending)
    return Stable(group, answer["generation_id"], ids)


def await_coordinator(probe: GroupProbe) -> None:
    """Ask until the coordinator is known and has read its log."""
    for _ in range(200):
        found = probe.quietly("find_coordinator", 4, {"coordinator_keys": ["first"]})
        beaten = probe.quietly("heartbeat", BEAT, beat("first", 1, "nobody"))
        if (
            found.get("coordinators", [{}])[0].get("error_code") == "NONE"
            and beaten.get("error_code") == "UNKNOWN_MEMBER_ID"
        ):
            return
        time.sleep(0.05)
    raise AssertionError(f"no coordinator: {found}, {beaten}")


def describe(probe: GroupProbe, name: str, group: str, who: str = "a") -> Plain:
    """What DescribeGroups says of a group."""
    return probe.ask(name, "describe_groups", 6, {"groups": [group]}, who)


def beat_of_consumer(group: str, member: str, epoch: int, **options: Any) -> Plain:
    """A ConsumerGroupHeartbeat body; `owned` maps topic ids to partitions."""
    body: Plain = {"group_id": group, "member_id": member, "member_epoch": epoch}
    for key, name in (
        ("topics", "subscribed_topic_names"),
        ("regex", "subscribed_topic_regex"),
        ("assignor", "server_assignor"),
        ("instance", "instance_id"),
        ("rack", "rack_id"),
        ("rebalance", "rebalance_timeout"),
    ):
        if key in options:
            body[name] = options[key]
    if "owned" in options:
        owned = options["owned"]
        body["topic_partitions"] = owned and [
            {"topic_id": topic, "partitions": list(numbers)} for topic, numbers in owned.items()
        ]
        if owned == {}:
            body["topic_partitions"] = []
    return body


def first_beat(group: str, member: str, *topics: str, **options: Any) -> Plain:
    """The full ConsumerGroupHeartbeat with which a member comes in."""
    known: dict[str, Any] = {"topics": topics, "rebalance": LONG_MS, "owned": {}} | options
    return beat_of_consumer(group, member, known.pop("epoch", 0), **known)
