"""What is asked about the cluster: ApiVersions, Metadata, DescribeCluster and their kind."""

import struct
import time
from typing import Final

from tests.compat.clients.probe import HUNG_UP, Probe, Scenario
from tests.compat.raw import ConnectionGone, message_type, to_plain, versions

UNKNOWN_ID: Final = "11111111-2222-3333-4444-555555555555"
INVALID_NAMES: Final = {
    "empty": "",
    "dot": ".",
    "two dots": "..",
    "slash": "a/b",
    "space": "a b",
    "umlaut": "grüße",
    "250 characters": "x" * 250,
}


def api_versions(probe: Probe) -> None:
    software = {"client_software_name": "probe", "client_software_version": "1"}
    for version in versions("api_versions"):
        probe.ask(f"ApiVersions v{version}", "api_versions", version, software)
    probe.ask("ApiVersions v3, empty software name", "api_versions", 3,
              {**software, "client_software_name": ""})  # fmt: skip
    probe.ask("ApiVersions v3, bad software name", "api_versions", 3,
              {**software, "client_software_name": "a b"})  # fmt: skip


def too_new(probe: Probe) -> None:
    from kio.serial import entity_reader

    for version in (5, 99):
        header = struct.pack(">hhih", 18, version, 7, -1)
        probe.connection.send(header + b"\0\x02a\x02b\0")
        frame = probe.connection.receive()
        answer, size = entity_reader(message_type("api_versions", 0, "response"))(frame, 4)
        plain = to_plain(answer)
        probe.answers[f"ApiVersions asked at v{version}"] = {
            "api": "api_versions, answer read as v0",
            "answer": {**plain, "bytes left": len(frame) - 4 - size},
        }
    odd_frames = {
        "Metadata asked at v99": struct.pack(">hhih", 3, 99, 7, -1) + b"\0\0",
        "Produce asked at v2": struct.pack(">hhih", 0, 2, 7, -1) + struct.pack(">hii", 1, 0, 0),
        "Fetch asked at v3": struct.pack(">hhih", 1, 3, 7, -1) + bytes(20),
        "api key 4 (LeaderAndIsr)": struct.pack(">hhih", 4, 0, 7, -1) + bytes(20),
        "api key 999": struct.pack(">hhih", 999, 0, 7, -1) + bytes(20),
        "Metadata v1 cut short": struct.pack(">hhih", 3, 1, 7, -1) + b"\0\0",
        "Metadata v1 with bytes left over": (
            struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 0) + b"left over"
        ),
        "negative correlation id": struct.pack(">hhih", 3, 1, -5, -1) + struct.pack(">i", 0),
        "empty frame": b"",
    }
    for name, frame in odd_frames.items():
        try:
            probe.connection.send(frame)
            answer = {"answered with bytes": len(probe.connection.receive()) > 0}
        except ConnectionGone:
            answer = dict(HUNG_UP)
        probe.reconnect()
        probe.answers[name] = {"api": "raw frame", "answer": answer}


def metadata(probe: Probe) -> None:
    probe.make_topic("known", 2)
    for version in versions("metadata"):
        both = {"topics": [{"name": "known"}, {"name": "unknown"}],
                "allow_auto_topic_creation": False}  # fmt: skip
        if version >= 4:
            probe.ask(f"Metadata v{version}, a known and an unknown topic, no auto creation",
                      "metadata", version, both)  # fmt: skip
        probe.ask(f"Metadata v{version}, empty list", "metadata", version, {"topics": []})
        if version >= 1:
            probe.ask(f"Metadata v{version}, null list", "metadata", version, {"topics": None})
    for label, name in INVALID_NAMES.items():
        for create in (False, True):
            body = {"topics": [{"name": name}], "allow_auto_topic_creation": create}
            probe.ask(f"Metadata v12, invalid name ({label}), auto creation {create}",
                      "metadata", 12, body)  # fmt: skip
    probe.ask("Metadata v12, name null and id null", "metadata", 12, {"topics": [{}]})
    probe.ask("Metadata v12, unknown id", "metadata", 12,
              {"topics": [{"topic_id": UNKNOWN_ID}]})  # fmt: skip
    probe.ask("Metadata v12, name and id both given", "metadata", 12,
              {"topics": [{"topic_id": UNKNOWN_ID, "name": "known"}]})  # fmt: skip
    probe.ask("Metadata v10, id given", "metadata", 10,
              {"topics": [{"topic_id": UNKNOWN_ID}]})  # fmt: skip
    probe.ask("Metadata v12, same topic twice", "metadata", 12,
              {"topics": [{"name": "known"}, {"name": "known"}]})  # fmt: skip
    probe.ask("Metadata v12, auto creation, first answer", "metadata", 12,
              {"topics": [{"name": "made-by-metadata"}]})  # fmt: skip
    probe.ask("Metadata v12, authorized operations", "metadata", 12,
              {"topics": [{"name": "known"}],
               "include_topic_authorized_operations": True})  # fmt: skip
    probe.ask("Metadata v8, cluster authorized operations", "metadata", 8,
              {"topics": [{"name": "known"}], "include_topic_authorized_operations": True,
               "include_cluster_authorized_operations": True})  # fmt: skip
    probe.ask("Metadata v12, internal name not there, auto creation", "metadata", 12,
              {"topics": [{"name": "__consumer_offsets"}],
               "allow_auto_topic_creation": False})  # fmt: skip


def describe_cluster(probe: Probe) -> None:
    for version in versions("describe_cluster"):
        probe.ask(f"DescribeCluster v{version}", "describe_cluster", version, {})
    probe.ask("DescribeCluster v1, authorized operations", "describe_cluster", 1,
              {"include_cluster_authorized_operations": True})  # fmt: skip
    probe.ask("DescribeCluster v1, endpoint type controllers", "describe_cluster", 1,
              {"endpoint_type": 2})  # fmt: skip
    probe.ask("DescribeCluster v1, endpoint type 9", "describe_cluster", 1, {"endpoint_type": 9})


def describe_topic_partitions(probe: Probe) -> None:
    api = "describe_topic_partitions"
    probe.make_topic("parts-b", 3)
    probe.make_topic("parts-a", 3)
    names = [{"name": "parts-b"}, {"name": "parts-a"}, {"name": "not-there"}]
    probe.ask("DescribeTopicPartitions, three topics, unsorted", api, 0,
              {"topics": names, "response_partition_limit": 2000})  # fmt: skip
    probe.ask("DescribeTopicPartitions, limit 4 gives a cursor", api, 0,
              {"topics": names[:2], "response_partition_limit": 4})  # fmt: skip
    probe.ask("DescribeTopicPartitions, from a cursor", api, 0,
              {"topics": names[:2], "response_partition_limit": 4,
               "cursor": {"topic_name": "parts-b", "partition_index": 1}})  # fmt: skip
    probe.ask("DescribeTopicPartitions, cursor partition negative", api, 0,
              {"topics": names[:2], "response_partition_limit": 4,
               "cursor": {"topic_name": "parts-b", "partition_index": -1}})  # fmt: skip
    probe.ask("DescribeTopicPartitions, invalid name", api, 0,
              {"topics": [{"name": "a/b"}], "response_partition_limit": 4})  # fmt: skip


def find_coordinator(probe: Probe) -> None:
    api = "find_coordinator"
    probe.ask("FindCoordinator v2, empty group", api, 2, {"key": "", "key_type": 0})
    probe.ask("FindCoordinator v2, key type 9", api, 2, {"key": "g", "key_type": 9})
    probe.ask("FindCoordinator v4, key type 9", api, 4, {"key_type": 9, "coordinator_keys": ["g"]})
    probe.ask("FindCoordinator v4, no keys", api, 4, {"key_type": 0, "coordinator_keys": []})
    # The first question makes a Kafka create its internal topic; the answer comes later.
    groups = {"key_type": 0, "coordinator_keys": ["g", "h"]}
    for _ in range(20):
        rows = probe.quietly(api, 4, groups)["coordinators"]
        if rows[0]["error_code"] == "NONE":
            break
        time.sleep(0.1)
    probe.ask("FindCoordinator v4, for a group", api, 4, groups)
    probe.ask("FindCoordinator v6, share key malformed", api, 6,
              {"key_type": 2, "coordinator_keys": ["nonsense"]})  # fmt: skip


SCENARIOS: Final[tuple[Scenario, ...]] = (
    api_versions,
    too_new,
    metadata,
    describe_cluster,
    describe_topic_partitions,
    find_coordinator,
)
