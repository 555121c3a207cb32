"""What a broker's configuration says about the cluster it is part of."""

from dataclasses import dataclass

from barnabas.config.keys import LONG_MAX


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The defaults are Kafka's, and those of the keys in `cluster_keys`."""

    zookeeper_connect: str | None = None
    """None: a single broker, with a store of its own."""
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 30_000
    zookeeper_auth: str | None = None
    zookeeper_tls: bool = False
    zookeeper_ca_file: str | None = None
    zookeeper_cert_file: str | None = None
    zookeeper_key_file: str | None = None
    replica_lag_max_ms: int = 30_000
    replica_fetch_wait_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1024 * 1024
    replica_fetch_response_max_bytes: int = 10 * 1024 * 1024
    leader_throttled_rate: int = LONG_MAX
    follower_throttled_rate: int = LONG_MAX
    committed_interval_ms: int = 5_000
    reads_nearby: bool = False
    """Whether consumers are told to read at a replica of their own rack."""
    controlled_shutdown: bool = True
