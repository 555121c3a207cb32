"""The broker keys about groups and the topic that remembers them, and what they say together."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.config import checks
from barnabas.config.group_settings import GroupSettings
from barnabas.config.keys import INT_MAX, Check, ConfigType, Importance, Key, Value, invalid
from barnabas.config.topic_keys import SEGMENT_BYTES_MIN
from barnabas.model import limits

_I, _L, _SHORT = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT
_S, _LIST = ConfigType.STRING, ConfigType.LIST
_HIGH = Importance.HIGH

ASSIGNORS: Final = ("uniform", "range")
"""The ways of sharing out partitions that are built in, the default first."""

_MINUTE_MS: Final = 60_000
_REGEX_REFRESH_MS_MIN: Final = 10_000


def _key(
    name: str,
    type_: ConfigType,
    default: Value,
    doc: str,
    check: Check | None = None,
    importance: Importance = Importance.MEDIUM,
) -> Key:
    return Key(name=name, type=type_, default=default, doc=doc, check=check, importance=importance)


def _refused(name: str, type_: ConfigType, default: Value, doc: str, reason: str) -> Key:
    return Key(name=name, type=type_, default=default, doc=doc, refusal=reason)


def _some_assignors(value: Value) -> str | None:
    if value == ():
        return "values must not be empty"
    return checks.members_of(*ASSIGNORS)(value)


# fmt: off
GROUP_KEYS: Final = (
    # The topic that remembers groups and their offsets.
    _key("offsets.topic.num.partitions", _I, 50,
         "Partitions of `__consumer_offsets`; a group lives in one of them, chosen by its name, so "
         "the count must not change once there are groups.",
         checks.between(1, limits.PARTITIONS_PER_TOPIC_MAX), _HIGH),
    _key("offsets.topic.replication.factor", _SHORT, 3,
         "Replicas of `__consumer_offsets`. A broker alone makes one; a cluster waits until so "
         "many brokers are there.",
         checks.at_least(1), _HIGH),
    _key("offsets.topic.segment.bytes", _I, 100 * 1024 * 1024,
         "`segment.bytes` of `__consumer_offsets`; small, because only closed segments are "
         "compacted, and what is left is read at every start.",
         checks.at_least(SEGMENT_BYTES_MIN), _HIGH),
    _refused("offsets.topic.compression.codec", _I, 0,
             "The codec of the coordinator's own batches; 0 for none.",
             "its batches hold a record or two, which no codec makes smaller"),
    _refused("offsets.load.buffer.size", _I, 5 * 1024 * 1024,
             "Bytes read at a time while groups are loaded.",
             "groups are loaded in reads of the log's own size"),
    # Committed offsets.
    _key("offset.metadata.max.bytes", _I, 4096,
         "The longest note a commit may carry, because every one is kept in memory.",
         checks.at_least(0), _HIGH),
    _refused("offsets.commit.timeout.ms", _I, 5000,
             "How long what a coordinator wrote may take to reach every replica in sync.",
             "a commit is answered as soon as it is written, or with the error that prevented it"),
    _key("offsets.retention.minutes", _I, 7 * 24 * 60,
         "Offsets are forgotten so long after their group was last in use, or their topic last "
         "subscribed to, so that groups nobody needs do not stay for ever.",
         checks.at_least(1), _HIGH),
    _key("offsets.retention.check.interval.ms", _L, 600_000,
         "How often offsets are looked through for those to forget.", checks.at_least(1), _HIGH),
    # Groups of the classic protocol.
    _key("group.min.session.timeout.ms", _I, 6_000,
         "The shortest session timeout a member may ask for; shorter ones mean more heartbeats.",
         checks.at_least(0)),
    _key("group.max.session.timeout.ms", _I, 1_800_000,
         "The longest session timeout a member may ask for; a dead member holds its partitions so "
         "long.",
         checks.at_least(0)),
    _key("group.initial.rebalance.delay.ms", _I, 3_000,
         "How long a new group waits for more members before its first rebalance, because those "
         "who come just after it would cause another.",
         checks.at_least(0)),
    _key("group.max.size", _I, INT_MAX,
         "Members of one group of the classic protocol; more are turned away.", checks.at_least(1)),
    # Groups of the consumer protocol.
    _key("group.consumer.session.timeout.ms", _I, 45_000,
         "A member silent for so long is taken for dead and its partitions go to others.",
         checks.at_least(1)),
    _key("group.consumer.min.session.timeout.ms", _I, 45_000,
         "The least that `group.consumer.session.timeout.ms` may be.", checks.at_least(1)),
    _key("group.consumer.max.session.timeout.ms", _I, 60_000,
         "The most that `group.consumer.session.timeout.ms` may be.", checks.at_least(1)),
    _key("group.consumer.heartbeat.interval.ms", _I, 5_000,
         "How often members are told to send a heartbeat; they learn of changes by the answers.",
         checks.at_least(1)),
    _key("group.consumer.min.heartbeat.interval.ms", _I, 5_000,
         "The least that `group.consumer.heartbeat.interval.ms` may be.", checks.at_least(1)),
    _key("group.consumer.max.heartbeat.interval.ms", _I, 15_000,
         "The most that `group.consumer.heartbeat.interval.ms` may be.", checks.at_least(1)),
    _key("group.consumer.max.size", _I, INT_MAX,
         "Members of one group of the consumer protocol; more are turned away.",
         checks.at_least(1)),
    _key("group.consumer.assignors", _LIST, ASSIGNORS,
         "The ways of sharing out partitions that members may ask for; the first serves those who "
         "name none.",
         _some_assignors),
    Key(name="group.consumer.regex.refresh.interval.ms", type=_I, default=600_000,
        doc="How often the topics that subscribed expressions stand for are looked up again.",
        check=checks.at_least(_REGEX_REFRESH_MS_MIN), internal=True),
    _refused("group.consumer.migration.policy", _S, "disabled",
             "Whether a group with members may move between the two protocols.",
             "a group moves between the protocols only while it is empty"),
    _refused("group.coordinator.rebalance.protocols", _LIST, ("classic", "consumer"),
             "The protocols by which groups are served.",
             "both protocols are always served (Kafka 5.0 drops this key)"),
)
# fmt: on


def read_group_settings(values: Mapping[str, Any]) -> GroupSettings:
    """What the effective values of all broker keys say about groups.

    Raises KafkaError INVALID_CONFIG where they contradict each other.
    """
    _check_together(values)
    return GroupSettings(
        session_timeout_min_ms=values["group.min.session.timeout.ms"],
        session_timeout_max_ms=values["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=values["group.initial.rebalance.delay.ms"],
        max_size=values["group.max.size"],
        offset_metadata_max_bytes=values["offset.metadata.max.bytes"],
        offsets_partitions=values["offsets.topic.num.partitions"],
        offsets_replication_factor=values["offsets.topic.replication.factor"],
        offsets_segment_bytes=values["offsets.topic.segment.bytes"],
        offsets_retention_ms=values["offsets.retention.minutes"] * _MINUTE_MS,
        offsets_retention_check_interval_ms=values["offsets.retention.check.interval.ms"],
        consumer_session_timeout_ms=values["group.consumer.session.timeout.ms"],
        consumer_heartbeat_interval_ms=values["group.consumer.heartbeat.interval.ms"],
        consumer_max_size=values["group.consumer.max.size"],
        consumer_assignors=values["group.consumer.assignors"],
        consumer_regex_refresh_interval_ms=values["group.consumer.regex.refresh.interval.ms"],
    )


_ASCENDING: Final = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
)
"""Keys of which the first may not be more than the second."""


def _check_together(values: Mapping[str, Any]) -> None:
    for lower, upper in _ASCENDING:
        if values[lower] > values[upper]:
            raise invalid(
                upper, values[upper], f"must not be less than {lower}, which is {values[lower]}"
            )
    heartbeat, session = (
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
    )
    if values[heartbeat] >= values[session]:
        raise invalid(
            session, values[session], f"must be more than {heartbeat}, which is {values[heartbeat]}"
        )
