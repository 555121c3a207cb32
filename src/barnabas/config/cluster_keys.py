"""The broker keys about a cluster: ZooKeeper, replicas, leaders."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from barnabas.config import checks
from barnabas.config.cluster_settings import ClusterSettings
from barnabas.config.keys import LONG_MAX, ConfigType, Importance, Update, Value, broker_key

_B, _I, _L, _S = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG, ConfigType.STRING
_PASSWORD = ConfigType.PASSWORD
_LIST = ConfigType.LIST
_LOW = Importance.LOW
_key = partial(broker_key, importance=Importance.HIGH)

CORDONED: Final = "cordoned.log.dirs"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Kafka's own way to choose where a consumer reads, and the only one that is known here."""


def _known_selector(value: Value) -> str | None:
    if value == RACK_AWARE:
        return None
    return f"only {RACK_AWARE} is known; leave it unset to have everybody read at leaders"


# fmt: off
CLUSTER_KEYS: Final = (
    # ZooKeeper.
    _key("zookeeper.connect", _S, None,
         "The ZooKeeper ensemble that the cluster agrees by, as host:port,host:port/path; not set: "
         "this broker is alone, and needs none."),
    _key("zookeeper.session.timeout.ms", _I, 18_000,
         "How long the cluster waits for a sign of life of a broker before others take over what "
         "it leads.",
         checks.at_least(1000)),
    _key("zookeeper.connection.timeout.ms", _I, 30_000,
         "How long a starting broker looks for its ZooKeeper.", checks.at_least(1)),
    _key("zookeeper.auth", _PASSWORD, None,
         "A name and a password, as name:password, by which brokers show ZooKeeper that they may "
         "change what is theirs; with it nobody else may."),
    _key("zookeeper.ssl.client.enable", _B, False,
         "Whether ZooKeeper is talked to by TLS."),
    _key("zookeeper.ssl.ca.file", _S, None,
         "The certificates (PEM) by which ZooKeeper's servers are known."),
    _key("zookeeper.ssl.cert.file", _S, None,
         "The certificate (PEM) by which this broker shows ZooKeeper who it is."),
    _key("zookeeper.ssl.key.file", _S, None, "The key (PEM) of that certificate."),
    # Replicas.
    _key("replica.lag.time.max.ms", _L, 30_000,
         "A follower that has not caught up with its leader for so long is in sync no more, so "
         "that nobody waits for it.",
         checks.at_least(1)),
    _key("replica.fetch.wait.max.ms", _I, 500,
         "How long a leader keeps a follower's fetch while there is nothing new.",
         checks.at_least(0)),
    _key("replica.fetch.min.bytes", _I, 1,
         "How much must be new before a follower's fetch is answered.", checks.at_least(0)),
    _key("replica.fetch.max.bytes", _I, 1024 * 1024,
         "The most that a follower asks for of one partition at once, plus one batch if that is "
         "larger.",
         checks.at_least(0)),
    _key("replica.fetch.response.max.bytes", _I, 10 * 1024 * 1024,
         "The most that a follower asks for at once.", checks.at_least(0)),
    _key("replica.high.watermark.checkpoint.interval.ms", _L, 5_000,
         "How often it is noted how much of each log is committed, because a broker that comes "
         "back begins with it.",
         checks.at_least(1)),
    _key("leader.replication.throttled.rate", _L, LONG_MAX,
         "How many bytes a second this broker sends, as a leader, to replicas that are not in sync "
         "and that leader.replication.throttled.replicas of their topic names.",
         checks.at_least(0), update=Update.CLUSTER_WIDE),
    _key("follower.replication.throttled.rate", _L, LONG_MAX,
         "How many bytes a second this broker copies to replicas that are not in sync and that "
         "follower.replication.throttled.replicas of their topic names.",
         checks.at_least(0), update=Update.CLUSTER_WIDE),
    # Readers.
    broker_key("replica.selector.class", _S, None,
         "Where consumers read: not set, at leaders; RackAwareReplicaSelector, at a replica "
         "in sync in the consumer's own rack (its `client.rack`), where there is one.",
         _known_selector),
    # Leaders.
    _key("controlled.shutdown.enable", _B, True,
         "Whether a broker that stops hands over what it leads first."),
    # Placement.
    _key(CORDONED, _LIST, (),
         "`*`: no new partition is placed on this broker; what it holds stays (KIP-1066). Counts "
         "only when it is set while the cluster runs.",
         checks.members_of("*"), update=Update.PER_BROKER),
)
# fmt: on


def read_cluster_settings(values: Mapping[str, Any]) -> ClusterSettings:
    """What the effective values of all broker keys say about the cluster."""
    return ClusterSettings(
        zookeeper_connect=values["zookeeper.connect"],
        session_timeout_ms=values["zookeeper.session.timeout.ms"],
        connection_timeout_ms=values["zookeeper.connection.timeout.ms"],
        zookeeper_auth=values["zookeeper.auth"],
        zookeeper_tls=values["zookeeper.ssl.client.enable"],
        zookeeper_ca_file=values["zookeeper.ssl.ca.file"],
        zookeeper_cert_file=values["zookeeper.ssl.cert.file"],
        zookeeper_key_file=values["zookeeper.ssl.key.file"],
        replica_lag_max_ms=values["replica.lag.time.max.ms"],
        replica_fetch_wait_ms=values["replica.fetch.wait.max.ms"],
        replica_fetch_min_bytes=values["replica.fetch.min.bytes"],
        replica_fetch_max_bytes=values["replica.fetch.max.bytes"],
        replica_fetch_response_max_bytes=values["replica.fetch.response.max.bytes"],
        leader_throttled_rate=values["leader.replication.throttled.rate"],
        follower_throttled_rate=values["follower.replication.throttled.rate"],
        committed_interval_ms=values["replica.high.watermark.checkpoint.interval.ms"],
        reads_nearby=values["replica.selector.class"] == RACK_AWARE,
        controlled_shutdown=values["controlled.shutdown.enable"],
    )
