"""What a broker's configuration says about transactions, as the coordinator reads it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The defaults are Kafka 4.3's, and those of the keys in `transaction_keys`."""

    partitions: int = 50
    replication_factor: int = 3
    """At most: as many replicas as there are brokers when the topic is created."""
    min_insync_replicas: int = 2
    """At most: as many as there are replicas."""
    segment_bytes: int = 100 * 1024 * 1024
    timeout_max_ms: int = 15 * 60 * 1000
    id_expiration_ms: int = 7 * 24 * 3600 * 1000
    timed_out_interval_ms: int = 10_000
    expired_interval_ms: int = 3_600_000
    verification: bool = True
    add_retry_backoff_ms: int = 20
    add_retry_backoff_max_ms: int = 100
    """How long a Produce may wait, in all, for the producer's last transaction to be over."""
