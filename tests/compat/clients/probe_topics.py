"""What is asked to change or describe topics and configs, mostly in ways that are refused."""

from typing import Any, Final

from tests.compat.batches import Rec, make_batch
from tests.compat.clients.probe import BROKER_RESOURCE, TOPIC_RESOURCE, Probe, Scenario
from tests.compat.clients.probe_metadata import INVALID_NAMES, UNKNOWN_ID
from tests.compat.raw import Plain, versions

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def _topic(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> Plain:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def _create(probe: Probe, label: str, *topics: Plain, version: int = 7, only: bool = False) -> None:
    probe.ask(f"CreateTopics v{version}, {label}", "create_topics", version,
              {"topics": list(topics), "timeout": 10_000, "validate_only": only})  # fmt: skip


def _configs(*pairs: tuple[str, str | None]) -> Plain:
    return {"configs": [{"name": name, "value": value} for name, value in pairs]}


def create_topics(probe: Probe) -> None:
    for version in versions("create_topics"):
        _create(probe, "new", _topic(f"created-v{version}", 2), version=version)
    _create(probe, "with configs",
            _topic("with-configs", **_configs(("retention.ms", "1000"),
                                              ("cleanup.policy", "compact,delete"))))  # fmt: skip
    _create(probe, "exists", _topic("created-v7"))
    _create(probe, "exists, validate only", _topic("created-v7"), only=True)
    _create(probe, "validate only", _topic("validated", 3), only=True)
    _create(probe, "same name twice", _topic("twice"), _topic("twice"), _topic("another"))
    _create(probe, "no topics")
    for label, name in INVALID_NAMES.items():
        _create(probe, f"invalid name ({label})", _topic(name))
    _create(probe, "names that collide (a.b then a_b)", _topic("col.lide"), _topic("col_lide"))
    _create(probe, "name collides with an existing one", _topic("col_lide"))
    _create(probe, "0 partitions", _topic("p0", 0))
    _create(probe, "-1 partitions (default)", _topic("pdefault", -1))
    _create(probe, "-2 partitions", _topic("pm2", -2))
    _create(probe, "replication factor 0", _topic("rf0", 1, 0))
    _create(probe, "replication factor -1 (default)", _topic("rfdefault", 1, -1))
    _create(probe, "replication factor -2", _topic("rfm2", 1, -2))
    _create(probe, "replication factor 3 with one broker", _topic("rf3", 1, 3))
    _create(probe, "internal name", _topic("__consumer_offsets"))
    create_topics_with_assignments(probe)
    create_topics_with_bad_configs(probe)


def create_topics_with_assignments(probe: Probe) -> None:
    def assigned(*replicas: tuple[int, list[int]]) -> Plain:
        rows = [{"partition_index": n, "broker_ids": brokers} for n, brokers in replicas]
        return {"assignments": rows}

    _create(probe, "assignment", _topic("as1", -1, -1, **assigned((0, [1]), (1, [1]))))
    _create(probe, "assignment and partitions", _topic("as2", 1, -1, **assigned((0, [1]))))
    _create(probe, "assignment and replication factor", _topic("as3", -1, 1, **assigned((0, [1]))))
    _create(probe, "assignment to an unknown broker", _topic("as4", -1, -1, **assigned((0, [9]))))
    _create(probe, "assignment not from 0", _topic("as5", -1, -1, **assigned((1, [1]))))
    _create(probe, "assignment without replicas", _topic("as6", -1, -1, **assigned((0, []))))
    _create(probe, "assignment names a broker twice",
            _topic("as7", -1, -1, **assigned((0, [1, 1]))))  # fmt: skip
    _create(probe, "assignment names a partition twice",
            _topic("as8", -1, -1, **assigned((0, [1]), (0, [1]))))  # fmt: skip


def create_topics_with_bad_configs(probe: Probe) -> None:
    for n, (key, value) in enumerate(BAD_CONFIGS):
        _create(probe, f"config {key}={value}", _topic(f"cfg{n}", **_configs((key, value))))
    twice = _configs(("retention.ms", "1"), ("retention.ms", "2"))
    _create(probe, "same config twice", _topic("cfgtwice", **twice))


BAD_CONFIGS: Final[tuple[tuple[str, str | None], ...]] = (
    ("no.such.config", "1"),
    ("retention.ms", "soon"),
    ("retention.ms", "-2"),
    ("retention.ms", None),
    ("retention.ms", ""),
    ("cleanup.policy", "shred"),
    ("cleanup.policy", ""),
    ("cleanup.policy", "delete,delete"),
    ("compression.type", "rar"),
    ("segment.bytes", "1"),
    ("segment.bytes", "1048575"),
    ("segment.bytes", "99999999999"),
    ("max.message.bytes", "-1"),
    ("min.insync.replicas", "0"),
    ("message.timestamp.type", "Never"),
    ("min.cleanable.dirty.ratio", "1.5"),
    ("unclean.leader.election.enable", "perhaps"),
    ("flush.messages", "0"),
    ("message.format.version", "2.0"),
    ("message.downconversion.enable", "true"),
    ("leader.replication.throttled.replicas", "nonsense"),
)


def delete_topics(probe: Probe) -> None:
    for version in versions("delete_topics"):
        name = f"gone-v{version}"
        topic_id = probe.make_topic(name)
        body: Plain = {"topic_names": [name, "never-there"], "timeout": 10_000}
        if version >= 6:
            body = {"topics": [{"name": name}, {"name": "never-there"}], "timeout": 10_000}
        probe.ask(f"DeleteTopics v{version}, one and an unknown", "delete_topics", version, body)
        probe.ask(f"Metadata after DeleteTopics v{version}", "metadata", 12,
                  {"topics": [{"topic_id": topic_id}]})  # fmt: skip
    by_id = probe.make_topic("gone-by-id")
    cases: dict[str, list[Plain]] = {
        "by id and an unknown id": [{"topic_id": by_id}, {"topic_id": UNKNOWN_ID}],
        "name and id both": [{"name": "x", "topic_id": UNKNOWN_ID}],
        "neither name nor id": [{}],
        "unknown twice": [{"name": "u"}, {"name": "u"}],
        "invalid name": [{"name": "a/b"}],
        "none": [],
    }
    for label, topics in cases.items():
        probe.ask(f"DeleteTopics v6, {label}", "delete_topics", 6,
                  {"topics": topics, "timeout": 10_000})  # fmt: skip
    probe.make_topic("gone-twice")
    probe.ask("DeleteTopics v6, same name twice", "delete_topics", 6,
              {"topics": [{"name": "gone-twice"}] * 2, "timeout": 10_000})  # fmt: skip


def create_partitions(probe: Probe) -> None:
    probe.make_topic("grows", 2)
    probe.make_topic("grows-too", 1)

    def ask(label: str, *topics: Plain, only: bool = False) -> None:
        probe.ask(f"CreatePartitions v3, {label}", "create_partitions", 3,
                  {"topics": list(topics), "timeout": 10_000, "validate_only": only})  # fmt: skip

    ask("validate only", {"name": "grows", "count": 4}, only=True)
    ask("fewer", {"name": "grows", "count": 1})
    ask("same count", {"name": "grows", "count": 2})
    ask("zero", {"name": "grows", "count": 0})
    ask("negative", {"name": "grows", "count": -1})
    ask("unknown topic", {"name": "unknown-grows", "count": 3})
    ask("invalid name", {"name": "a/b", "count": 3})
    ask("same topic twice", {"name": "grows", "count": 3}, {"name": "grows", "count": 4})
    ask("several, in order", {"name": "zzz-unknown", "count": 2}, {"name": "grows", "count": 3},
        {"name": "grows-too", "count": 1})  # fmt: skip
    ask("too few assignments", {"name": "grows", "count": 6, "assignments": [{"broker_ids": [1]}]})
    ask("unknown broker assigned", {"name": "grows", "count": 4,
                                    "assignments": [{"broker_ids": [9]}]})  # fmt: skip
    ask("assignment", {"name": "grows", "count": 4, "assignments": [{"broker_ids": [1]}]})
    ask("empty assignments", {"name": "grows", "count": 5, "assignments": []})
    ask("too many replicas", {"name": "grows", "count": 6,
                              "assignments": [{"broker_ids": [1, 2]}]})  # fmt: skip


def describe_configs(probe: Probe) -> None:
    probe.make_topic("described", 1, retention_ms="12345")

    def ask(label: str, *resources: Plain, version: int = 4, **more: Any) -> None:
        probe.ask(f"DescribeConfigs v{version}, {label}", "describe_configs", version,
                  {"resources": list(resources), **more})  # fmt: skip

    topic = {"resource_type": TOPIC_RESOURCE, "resource_name": "described"}
    broker = {"resource_type": BROKER_RESOURCE, "resource_name": "1"}
    for version in versions("describe_configs"):
        ask("topic, two keys", {**topic, "configuration_keys": ["retention.ms", "segment.bytes"]},
            version=version, include_synonyms=True)  # fmt: skip
    ask("topic, every key, with synonyms", topic, include_synonyms=True)
    ask("topic, empty key list", {**topic, "configuration_keys": []})
    ask("topic, unknown key", {**topic, "configuration_keys": ["no.such"]})
    ask("topic, one key with documentation", {**topic, "configuration_keys": ["retention.ms"]},
        include_documentation=True)  # fmt: skip
    ask("unknown topic", {**topic, "resource_name": "undescribed"})
    ask("invalid topic name", {**topic, "resource_name": "a/b"})
    ask("broker, every key", broker, include_synonyms=True)
    ask("unknown broker", {**broker, "resource_name": "77"})
    ask("broker that is no number", {**broker, "resource_name": "one"})
    ask("cluster default broker", {**broker, "resource_name": ""})
    ask("broker logger", {"resource_type": 8, "resource_name": "1",
                          "configuration_keys": ["kafka.server.KafkaApis"]})  # fmt: skip
    ask("client metrics", {"resource_type": 16, "resource_name": "none"})
    ask("group", {"resource_type": 32, "resource_name": "g"})
    ask("resource type 99", {"resource_type": 99, "resource_name": "x"})
    ask("resource type 0", {"resource_type": 0, "resource_name": "x"})
    ask("same resource twice", *[{**topic, "configuration_keys": ["retention.ms"]}] * 2)


def _look(probe: Probe, label: str, topic: str) -> None:
    """Look at the configs when the broker has heard of every change before.

    Changes reach a Kafka broker in order, so one that it has heard of is a barrier for the others.
    """
    probe.make_topic(f"barrier-{len(probe.answers)}")
    keys = ["cleanup.policy", "retention.ms", "segment.bytes"]
    asked = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": keys}
    probe.ask(label, "describe_configs", 4, {"resources": [asked]})


def incremental_alter_configs(probe: Probe) -> None:
    probe.make_topic("altered")

    def ask(
        label: str, *configs: tuple[str, int, str | None], only: bool = False, **r: Any
    ) -> None:
        rows = [{"name": n, "config_operation": op, "value": v} for n, op, v in configs]
        resource = {
            "resource_type": TOPIC_RESOURCE,
            "resource_name": "altered",
            "configs": rows,
            **r,
        }
        probe.ask(f"IncrementalAlterConfigs v1, {label}", "incremental_alter_configs", 1,
                  {"resources": [resource], "validate_only": only})  # fmt: skip
        _look(probe, f"    and then the topic says ({label})", "altered")

    ask("set", ("retention.ms", SET, "5000"))
    ask("validate only", ("retention.ms", SET, "6000"), only=True)
    ask("append to the default", ("cleanup.policy", APPEND, "compact"))
    ask("append what is there", ("cleanup.policy", APPEND, "compact"))
    ask("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    ask("subtract what is not there", ("cleanup.policy", SUBTRACT, "delete"))
    ask("subtract all", ("cleanup.policy", SUBTRACT, "compact"))
    ask("append to a number", ("retention.ms", APPEND, "1"))
    ask("delete", ("retention.ms", DELETE, None))
    ask("delete with a value", ("retention.ms", DELETE, "5"))
    ask("delete what was never set", ("segment.bytes", DELETE, None))
    ask("unknown key", ("no.such.config", SET, "1"))
    ask("delete unknown key", ("no.such.config", DELETE, None))
    ask("bad value", ("retention.ms", SET, "soon"))
    ask("null value", ("retention.ms", SET, None))
    ask("operation 9", ("retention.ms", 9, "1"))
    ask("same key twice", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    ask("one good and one bad", ("retention.ms", SET, "777"), ("segment.bytes", SET, "x"))
    ask("unknown topic", ("retention.ms", SET, "1"), resource_name="unaltered")
    ask("invalid topic name", ("retention.ms", SET, "1"), resource_name="a/b")
    ask("unknown broker", ("log.retention.ms", SET, "1"), resource_type=4, resource_name="77")
    ask("read-only broker key", ("log.dirs", SET, "/x"), resource_type=4, resource_name="1")
    ask("broker that is no number", ("log.retention.ms", SET, "1"), resource_type=4,
        resource_name="one")  # fmt: skip
    ask("resource type 99", ("x", SET, "1"), resource_type=99)
    twice = {"resource_type": 2, "resource_name": "altered",
             "configs": [{"name": "retention.ms", "value": "1"}]}  # fmt: skip
    probe.ask("IncrementalAlterConfigs v1, same resource twice", "incremental_alter_configs", 1,
              {"resources": [twice, twice]})  # fmt: skip


def alter_configs(probe: Probe) -> None:
    probe.make_topic("replaced", 1, retention_ms="1", segment_bytes="2000000")

    def ask(label: str, *configs: tuple[str, str | None], **r: Any) -> None:
        resource = {"resource_type": 2, "resource_name": "replaced", **_configs(*configs), **r}
        probe.ask(f"AlterConfigs v2, {label}", "alter_configs", 2, {"resources": [resource]})
        _look(probe, f"    and then the topic says (AlterConfigs {label})", "replaced")

    ask("replaces all", ("retention.ms", "2"))
    ask("unknown key", ("no.such", "2"))
    ask("null value", ("retention.ms", None))
    ask("unknown topic", ("retention.ms", "2"), resource_name="unreplaced")
    ask("nothing")


def list_config_resources(probe: Probe) -> None:
    probe.ask("ListConfigResources v0", "list_config_resources", 0, {})
    probe.ask("ListConfigResources v1, brokers", "list_config_resources", 1,
              {"resource_types": [4]})  # fmt: skip
    probe.ask("ListConfigResources v1, loggers", "list_config_resources", 1,
              {"resource_types": [8]})  # fmt: skip
    probe.ask("ListConfigResources v1, type 99", "list_config_resources", 1,
              {"resource_types": [99]})  # fmt: skip


def describe_log_dirs(probe: Probe) -> None:
    probe.make_topic("on-disk", 2)
    probe.append("on-disk", make_batch([Rec(value=b"x" * 100)]))
    api = "describe_log_dirs"
    for version in versions(api):
        probe.ask(f"DescribeLogDirs v{version}, one topic", api, version,
                  {"topics": [{"topic": "on-disk", "partitions": [0, 1, 7]}]})  # fmt: skip
    probe.ask("DescribeLogDirs v4, unknown topic", api, 4,
              {"topics": [{"topic": "not-on-disk", "partitions": [0]}]})  # fmt: skip
    probe.ask("DescribeLogDirs v4, no topics", api, 4, {"topics": []})


SCENARIOS: Final[tuple[Scenario, ...]] = (
    create_topics,
    delete_topics,
    create_partitions,
    describe_configs,
    incremental_alter_configs,
    alter_configs,
    list_config_resources,
    describe_log_dirs,
)
