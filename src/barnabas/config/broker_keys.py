"""Every broker key this broker uses, and the broker keys that supply the defaults of topics."""

from dataclasses import replace
from typing import Final

from barnabas.config import checks
from barnabas.config.cleaner_keys import CLEANER_KEYS
from barnabas.config.cluster_keys import CLUSTER_KEYS
from barnabas.config.controller_keys import CONTROLLER_KEYS
from barnabas.config.group_keys import GROUP_KEYS
from barnabas.config.keys import (
    LONG_MAX,
    ConfigType,
    Importance,
    Key,
    Update,
    Value,
    broker_key,
)
from barnabas.config.scrub_keys import SCRUB_KEYS
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.config.transaction_keys import TRANSACTION_KEYS
from barnabas.model import limits

_B, _I, _L = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_S, _LIST = ConfigType.STRING, ConfigType.LIST
_FIXED, _ALL = Update.READ_ONLY, Update.CLUSTER_WIDE


def _one_directory(value: Value) -> str | None:
    problem = checks.distinct_names(value)
    if problem is None and isinstance(value, tuple) and len(value) > 1:
        return "a broker keeps its logs in one directory; start one broker for each disk"
    return problem


# fmt: off
_OWN: Final = (
    # Who this broker is.
    broker_key("node.id", _I, 0,
         "The number by which the cluster knows this broker, because names and addresses change.",
         checks.at_least(0), importance=Importance.HIGH),
    broker_key("broker.id", _I, None,
         "The older name of `node.id`, for configurations that still use it.",
         checks.at_least(0), importance=Importance.HIGH),
    broker_key("broker.rack", _S, None,
         "Where this broker stands, so that replicas are spread over places that fail apart."),
    broker_key("log.dirs", _LIST, None,
         "The directory of the partitions' logs; takes precedence over `log.dir`.",
         _one_directory, importance=Importance.HIGH),
    broker_key("log.dir", _S, "barnabas-data",
         "The directory of the partitions' logs when `log.dirs` is not set.",
         importance=Importance.HIGH),
    # The network.
    broker_key("listeners", _LIST, ("PLAINTEXT://127.0.0.1:9092",),
         "The addresses to listen on; loopback unless told otherwise, because nobody is asked who "
         "they are.",
         checks.distinct_names, importance=Importance.HIGH),
    broker_key("advertised.listeners", _LIST, None,
         "The addresses clients are told to connect to, where they differ from `listeners` "
         "(containers, NAT).",
         checks.distinct_names, importance=Importance.HIGH),
    broker_key("listener.security.protocol.map", _LIST, ("PLAINTEXT:PLAINTEXT",),
         "Which protocol each listener name speaks, so that listeners can be named by purpose."),
    broker_key("allow.insecure", _B, False,
         "Must be true for a PLAINTEXT listener beyond loopback, so that a broker is never open "
         "to a network by accident.",
         importance=Importance.HIGH),
    broker_key("health.listener", _S, None,
         "Where HTTP requests for /health, /health/live and /health/ready are answered, as "
         "host:port; not set: nowhere. Whoever reaches it is told how this broker is."),
    broker_key("socket.request.max.bytes", _I, limits.FRAME_BYTES_MAX,
         "The largest request; refused before it is buffered, so that a stranger can not fill the "
         "memory.",
         checks.at_least(1), importance=Importance.HIGH),
    broker_key("connections.max.idle.ms", _L, int(limits.CONNECTION_IDLE_S_MAX * 1000),
         "A connection silent for so long is closed, because its peer may be gone without a word.",
         checks.at_least(1)),
    broker_key("max.connections", _I, limits.CONNECTIONS_MAX,
         "Connections held at once; more are closed on arrival, because descriptors are finite.",
         checks.at_least(0), update=_ALL),
    broker_key("max.connections.per.ip", _I, limits.CONNECTIONS_PER_ADDRESS_MAX,
         "Connections from one address, so that one host can not take every place.",
         checks.at_least(1), update=_ALL),
    # Topics.
    broker_key("num.partitions", _I, 1,
         "Partitions of a topic created without a count.",
         checks.between(1, limits.PARTITIONS_PER_TOPIC_MAX)),
    broker_key("default.replication.factor", _I, 1,
         "Replicas of a topic created without a replication factor.", checks.between(1, 32767)),
    broker_key("auto.create.topics.enable", _B, True,
         "Whether asking for an unknown topic creates it: handy for tests, and a typo makes a "
         "topic.",
         importance=Importance.HIGH),
    broker_key("delete.topic.enable", _B, True,
         "Whether topics can be deleted at all; false guards against a slip of the hand.",
         importance=Importance.HIGH),
    broker_key("max.request.partition.size.limit", _I, 2000,
         "Partitions in one DescribeTopicPartitions answer, so that answers stay small.",
         checks.at_least(1)),
    # Fetching.
    broker_key("fetch.max.bytes", _I, limits.FETCH_BYTES_MAX,
         "The most one Fetch answer carries, plus one batch if that is larger.",
         checks.at_least(1024)),
    broker_key("max.incremental.fetch.session.cache.slots", _I, limits.FETCH_SESSIONS_MAX,
         "Fetch sessions remembered; without one a consumer repeats all its partitions in every "
         "request.",
         checks.at_least(0)),
    # Housekeeping of logs.
    broker_key("log.retention.check.interval.ms", _L, 5 * 60 * 1000,
         "How often logs are looked through for segments to delete.", checks.at_least(1)),
    broker_key("log.flush.offset.checkpoint.interval.ms", _I, 60_000,
         "How often the synced end of every log is noted, because recovery starts from there.",
         checks.at_least(0), importance=Importance.HIGH),
    broker_key("log.flush.start.offset.checkpoint.interval.ms", _I, 60_000,
         "How often the start of every log is noted, so that deleted records do not come back.",
         checks.at_least(0), importance=Importance.HIGH),
    broker_key("num.recovery.threads.per.data.dir", _I, 2,
         "Logs recovered at once after a crash.", checks.at_least(1), importance=Importance.HIGH),
    # Coarser units for the defaults of topics; the key in milliseconds wins where both are set.
    broker_key("log.retention.minutes", _I, None,
         "The default of `retention.ms` in minutes, when `log.retention.ms` is not set.",
         checks.unlimited_or_positive, importance=Importance.HIGH),
    broker_key("log.retention.hours", _I, 168,
         "The default of `retention.ms` in hours, when neither milliseconds nor minutes are set.",
         checks.unlimited_or_positive, importance=Importance.HIGH),
    broker_key("log.roll.hours", _I, 168,
         "The default of `segment.ms` in hours, when `log.roll.ms` is not set.",
         checks.at_least(1), importance=Importance.HIGH),
    broker_key("log.roll.jitter.hours", _I, 0,
         "The default of `segment.jitter.ms` in hours, when `log.roll.jitter.ms` is not set.",
         checks.at_least(0), importance=Importance.HIGH),
    broker_key("log.flush.scheduler.interval.ms", _L, LONG_MAX,
         "How often logs are looked through for records to sync; the default of `flush.ms` when "
         "`log.flush.interval.ms` is not set.",
         checks.at_least(1), importance=Importance.HIGH),
)
# fmt: on


def _default_of(topic_key: Key) -> Key:
    """The broker key that supplies a topic key's default: same type and same bounds."""
    supplier, *coarser = topic_key.synonyms
    key = replace(
        topic_key,
        name=supplier.name,
        doc=f"`{topic_key.name}` of topics that do not set it themselves: {topic_key.doc}",
        # With coarser synonyms the last of them holds the default, as in Kafka.
        default=None if coarser else topic_key.default,
        synonyms=(),
    )
    if key.name == "log.retention.ms":
        return replace(key, check=checks.unlimited_or_positive)
    return key


_DEFAULTS_OF_TOPICS: Final = tuple(_default_of(key) for key in TOPIC_KEYS.values() if key.synonyms)

BROKER_KEYS: Final[dict[str, Key]] = {
    key.name: key
    for key in sorted(
        (
            *_OWN,
            *CLEANER_KEYS,
            *SCRUB_KEYS,
            *CLUSTER_KEYS,
            *CONTROLLER_KEYS,
            *GROUP_KEYS,
            *TRANSACTION_KEYS,
            *_DEFAULTS_OF_TOPICS,
        ),
        key=lambda k: k.name,
    )
}
"""By name, in alphabetical order."""

_SAME_IN_OTHER_UNITS: Final[tuple[tuple[str, ...], ...]] = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)

_SYNONYMS: Final = {name: group for group in _SAME_IN_OTHER_UNITS for name in group}
# One way only: the scheduler's interval supplies the flush interval, and is a key of its own.
_SYNONYMS["log.flush.interval.ms"] = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")


def synonyms_of(name: str) -> tuple[str, ...]:
    """The broker keys that can supply `name`, the strongest first."""
    return _SYNONYMS.get(name, (name,))
