"""What a broker's configuration says about groups, as the coordinator reads it."""

from dataclasses import dataclass

from barnabas.config.keys import INT_MAX


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The defaults are Kafka 4.3's, and those of the keys in `group_keys`."""

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = INT_MAX
    offset_metadata_max_bytes: int = 4_096
    offsets_partitions: int = 50
    offsets_replication_factor: int = 3
    """At most: as many replicas as there are brokers when the topic is created."""
    offsets_segment_bytes: int = 100 * 1024 * 1024
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = INT_MAX
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first is used for members that name none."""
    consumer_regex_refresh_interval_ms: int = 600_000
