"""A topic's configuration as its log reads it: typed, complete, never changed in place."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self, cast

from barnabas.config.keys import Value, invalid, parse_value
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.model.errors import ErrorCode, KafkaError

TimestampType = Literal["CreateTime", "LogAppendTime"]


_DEFAULT: Final[dict[str, Any]] = {key.name: key.default for key in TOPIC_KEYS.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One attribute for each key the broker acts on; the defaults are those of `topic_keys`."""

    cleanup_policy: frozenset[str] = frozenset(_DEFAULT["cleanup.policy"])
    compression_gzip_level: int = _DEFAULT["compression.gzip.level"]
    compression_lz4_level: int = _DEFAULT["compression.lz4.level"]
    compression_type: str = _DEFAULT["compression.type"]
    compression_zstd_level: int = _DEFAULT["compression.zstd.level"]
    delete_retention_ms: int = _DEFAULT["delete.retention.ms"]
    file_delete_delay_ms: int = _DEFAULT["file.delete.delay.ms"]
    follower_replication_throttled_replicas: tuple[str, ...] = _DEFAULT[
        "follower.replication.throttled.replicas"
    ]
    flush_messages: int = _DEFAULT["flush.messages"]
    flush_ms: int = _DEFAULT["flush.ms"]
    index_interval_bytes: int = _DEFAULT["index.interval.bytes"]
    leader_replication_throttled_replicas: tuple[str, ...] = _DEFAULT[
        "leader.replication.throttled.replicas"
    ]
    max_compaction_lag_ms: int = _DEFAULT["max.compaction.lag.ms"]
    max_message_bytes: int = _DEFAULT["max.message.bytes"]
    message_timestamp_after_max_ms: int = _DEFAULT["message.timestamp.after.max.ms"]
    message_timestamp_before_max_ms: int = _DEFAULT["message.timestamp.before.max.ms"]
    message_timestamp_type: TimestampType = _DEFAULT["message.timestamp.type"]
    min_cleanable_dirty_ratio: float = _DEFAULT["min.cleanable.dirty.ratio"]
    min_compaction_lag_ms: int = _DEFAULT["min.compaction.lag.ms"]
    min_insync_replicas: int = _DEFAULT["min.insync.replicas"]
    retention_bytes: int = _DEFAULT["retention.bytes"]
    retention_ms: int = _DEFAULT["retention.ms"]
    segment_bytes: int = _DEFAULT["segment.bytes"]
    segment_index_bytes: int = _DEFAULT["segment.index.bytes"]
    segment_jitter_ms: int = _DEFAULT["segment.jitter.ms"]
    segment_ms: int = _DEFAULT["segment.ms"]
    unclean_leader_election_enable: bool = _DEFAULT["unclean.leader.election.enable"]

    @classmethod
    def from_maps(
        cls, overrides: Mapping[str, str], broker_values: Mapping[str, Value] | None = None
    ) -> Self:
        """A topic's own settings over `BrokerConfig.topic_defaults` (or Kafka's defaults).

        Raises KafkaError INVALID_CONFIG for an unknown name or a value that can not be used.
        """
        values: dict[str, Value] = dict(broker_values or {})
        values.update(parse_overrides(overrides))
        internal = values.pop("internal.segment.bytes", None)
        if internal is not None:
            values["segment.bytes"] = internal
        chosen: dict[str, Any] = {
            _ATTRIBUTES[name]: value for name, value in values.items() if name in _ATTRIBUTES
        }
        if "cleanup_policy" in chosen:
            chosen["cleanup_policy"] = frozenset(cast("tuple[str, ...]", chosen["cleanup_policy"]))
        return cls(**chosen)

    @property
    def compacts(self) -> bool:
        """Whether only the last record of each key is kept in the end."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether segments past retention go."""
        return "delete" in self.cleanup_policy

    @property
    def segment_ms_max(self) -> int:
        """How long a segment is written: no longer than a record may stay uncompacted."""
        return (
            min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        )


_ATTRIBUTES: Final = {each.name.replace("_", "."): each.name for each in fields(TopicConfig)}


def parse_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """A topic's own settings, typed; KafkaError INVALID_CONFIG for the first that is wrong."""
    parsed: dict[str, Value] = {}
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise KafkaError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
        parsed[name] = parse_value(key, text)
    return parsed


def validate_overrides(
    overrides: Mapping[str, str], broker_values: Mapping[str, Value]
) -> TopicConfig:
    """As `TopicConfig.from_maps`, and the values must also agree with each other.

    Only a change is held to this: a stored topic stays usable when a broker default moves
    under it later.
    """
    config = TopicConfig.from_maps(overrides, broker_values)
    check_agreement(config)
    return config


def check_agreement(config: TopicConfig) -> None:
    """Raise INVALID_CONFIG for values that are fine alone and contradict each other."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise invalid(
            "min.compaction.lag.ms",
            config.min_compaction_lag_ms,
            f"must not exceed max.compaction.lag.ms ({config.max_compaction_lag_ms})",
        )
