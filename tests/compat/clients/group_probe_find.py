"""Group scenarios: who coordinates, the topic of the offsets, group ids of any bytes."""

from tests.compat.batches import Rec, make_batch
from tests.compat.clients.group_probe import GroupProbe, GroupScenario, Pending
from tests.compat.clients.group_probe_members import (
    await_coordinator,
    beat,
    commit,
    fetch,
    first_beat,
    join,
    leave,
)
from tests.compat.clients.probe import TOPIC_RESOURCE, produce_body
from tests.compat.raw import versions

OFFSETS = "__consumer_offsets"


def features(probe: GroupProbe) -> None:
    """Features."""
    answer = probe.quietly(
        "api_versions", 4, {"client_software_name": "probe", "client_software_version": "1"}
    )
    rows = {
        kind: [row for row in answer.get(kind, []) if row["name"] == "group.version"]
        for kind in ("supported_features", "finalized_features")
    }
    probe.keep("group.version", "api_versions v4", {}, rows)


def before_the_offsets_topic(probe: GroupProbe) -> None:
    """Before the topic of offsets exists."""
    body = {"topics": [{"name": OFFSETS}], "allow_auto_topic_creation": False}
    probe.ask("Metadata of it", "metadata", 12, body)
    probe.ask("ListGroups", "list_groups", 5, {})
    probe.ask("DescribeGroups", "describe_groups", 6, {"groups": ["nobody"]})
    probe.ask("Heartbeat", "heartbeat", 4, beat("nobody", 1, "someone"))
    probe.ask("OffsetFetch", "offset_fetch", 9, fetch("nobody", None))
    probe.ask("JoinGroup", "join_group", 9, join("nobody"))
    probe.ask("Metadata after these", "metadata", 12, body)
    body = {"topics": [{"name": OFFSETS, "num_partitions": 1, "replication_factor": 1}]}
    probe.ask("CreateTopics, validate only", "create_topics", 7,
              body | {"timeout": 5000, "validate_only": True})  # fmt: skip
    body = {"coordinator_keys": ["nobody"]}
    probe.ask("FindCoordinator, the first", "find_coordinator", 6, body)


def find(probe: GroupProbe) -> None:
    """FindCoordinator."""
    await_coordinator(probe)
    probe.ask("Metadata after it", "metadata", 12, {"topics": [{"name": OFFSETS}]})
    for version in versions("find_coordinator"):
        body = {"key": "g", "coordinator_keys": ["g"], "key_type": 0}
        probe.ask(f"v{version}", "find_coordinator", version, body)
    batched = {"coordinator_keys": ["g1", "g2", "g1", ""], "key_type": 0}
    probe.ask("v6, batched, with a duplicate and an empty one", "find_coordinator", 6, batched)
    probe.ask("v6, no keys", "find_coordinator", 6, {"coordinator_keys": []})
    probe.ask("v3, empty key", "find_coordinator", 3, {"key": ""})
    probe.ask("v0, empty key", "find_coordinator", 0, {"key": ""})
    for kind in (3, -1):
        probe.ask(f"v6, key type {kind}", "find_coordinator", 6,
                  {"coordinator_keys": ["g"], "key_type": kind})  # fmt: skip
        probe.ask(f"v3, key type {kind}", "find_coordinator", 3, {"key": "g", "key_type": kind})
    probe.ask("v6, a transactional id", "find_coordinator", 6,
              {"coordinator_keys": ["t"], "key_type": 1})  # fmt: skip
    probe.ask("v6, share key that is none", "find_coordinator", 6,
              {"coordinator_keys": ["g"], "key_type": 2})  # fmt: skip


def offsets_topic(probe: GroupProbe) -> None:
    """The topic of offsets."""
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": OFFSETS}
    keys = ["cleanup.policy", "compression.type", "segment.bytes"]
    answer = probe.quietly("describe_configs", 4, {"resources": [resource]})
    named = [row for row in answer["results"][0]["configs"] if row["config_source"] == 1]
    probe.keep("configs set on it", "describe_configs v4", {}, {"configs": named})
    probe.ask("some configs", "describe_configs", 4,
              {"resources": [resource | {"configuration_keys": keys}]})  # fmt: skip
    probe.ask("Produce into it", "produce", 12, produce_body(OFFSETS, make_batch([Rec()])))
    body = {"topics": [{"name": OFFSETS, "num_partitions": 1, "replication_factor": 1}]}
    probe.ask("CreateTopics", "create_topics", 7, body | {"timeout": 5000})
    probe.ask("CreateTopics, validate only", "create_topics", 7,
              body | {"timeout": 5000, "validate_only": True})  # fmt: skip
    rows = {"topics": [{"name": OFFSETS, "count": 2}], "timeout": 5000, "validate_only": True}
    probe.ask("CreatePartitions, validate only", "create_partitions", 3, rows)
    change = {"name": "segment.bytes", "config_operation": 0, "value": "104857600"}
    rows = {"resources": [resource | {"configs": [change]}], "validate_only": True}
    probe.ask("IncrementalAlterConfigs, validate only", "incremental_alter_configs", 1, rows)
    probe.ask("AlterConfigs, validate only", "alter_configs", 2,
              {"resources": [resource | {"configs": [change]}], "validate_only": True})  # fmt: skip
    rows = {"topics": [{"name": OFFSETS, "partitions": [{"partition_index": 0, "offset": 0}]}]}
    probe.ask("DeleteRecords", "delete_records", 2, rows | {"timeout": 5000})


def group_ids(probe: GroupProbe) -> None:
    """Group ids of any bytes."""
    for name, group in (("1 char", "x"), ("unicode", "gruppe-é漢😀"), ("space", " "),
                        ("slash and dots", "../a/b"), ("10000 chars", "x" * 10_000),
                        ("null character", "a\0b")):  # fmt: skip
        probe.ask(f"{name}, JoinGroup v9", "join_group", 9, join(group))
        probe.ask(f"{name}, OffsetCommit v8", "offset_commit", 8, commit(group, {"none": {0: 1}}))
        probe.ask(f"{name}, DeleteGroups v2", "delete_groups", 2, {"groups_names": [group]})
    probe.ask("32767 chars, Heartbeat v0", "heartbeat", 0, beat("x" * 32_767, 1, "m"))
    probe.ask("40000 chars, Heartbeat v4", "heartbeat", 4, beat("x" * 40_000, 1, "m"))
    probe.ask("40000 chars, JoinGroup v9", "join_group", 9, join("y" * 40_000))
    probe.ask("empty, JoinGroup v9", "join_group", 9, join(""))
    probe.ask("empty, JoinGroup v0", "join_group", 0, join(""))
    probe.ask("empty, Heartbeat v4", "heartbeat", 4, beat("", 1, "m"))
    probe.ask("empty, LeaveGroup v5", "leave_group", 5, leave("", ("m", None)))
    probe.ask("empty, DescribeGroups v6", "describe_groups", 6, {"groups": [""]})
    probe.ask("empty, DescribeGroups v5", "describe_groups", 5, {"groups": [""]})
    probe.ask("empty, DeleteGroups v2", "delete_groups", 2, {"groups_names": [""]})
    probe.ask("empty, OffsetDelete v0", "offset_delete", 0, {"group_id": ""})
    heartbeat = first_beat("", "plain-member", "none")
    probe.ask("empty, ConsumerGroupHeartbeat v1", "consumer_group_heartbeat", 1, heartbeat)
    probe.ask("empty, ConsumerGroupDescribe v1", "consumer_group_describe", 1, {"group_ids": [""]})


def broken_group_ids(probe: GroupProbe) -> None:
    """Group ids that are no strings."""
    old = Pending("join_group", 5, join("XXXX"), "a")
    probe.ask_bytes("invalid UTF-8, JoinGroup v5", old, b"XXXX", b"\xff\xfea\x80")
    new = Pending("join_group", 9, join("XXXX"), "a")
    probe.ask_bytes("invalid UTF-8, JoinGroup v9", new, b"XXXX", b"\xff\xfea\x80")
    old = Pending("heartbeat", 0, beat("XXXX", 1, "m"), "a")
    probe.ask_bytes("null, Heartbeat v0", old, b"\x00\x04XXXX", b"\xff\xff")
    new = Pending("heartbeat", 4, beat("XXXX", 1, "m"), "a")
    probe.ask_bytes("null, Heartbeat v4", new, b"\x05XXXX", b"\x00")
    old = Pending("offset_commit", 7, commit("XXXX", {"none": {0: 1}}), "a")
    probe.ask_bytes("invalid UTF-8, OffsetCommit v7", old, b"XXXX", b"\xff\xfea\x80")
    cut = Pending("join_group", 5, join("XXXX"), "a")
    probe.ask_bytes("length beyond the frame, JoinGroup v5", cut, b"\x00\x04XXXX", b"\x7f\xffXXXX")


SCENARIOS: tuple[GroupScenario, ...] = (
    features, before_the_offsets_topic, find, offsets_topic, group_ids, broken_group_ids,
)  # fmt: skip
