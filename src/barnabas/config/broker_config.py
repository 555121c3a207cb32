"""A broker's configuration: layers of text below, typed attributes above."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from barnabas.config.broker_keys import BROKER_KEYS, synonyms_of
from barnabas.config.cleaner_keys import read_cleaner_settings
from barnabas.config.cluster_keys import read_cluster_settings
from barnabas.config.controller_keys import read_controller_settings
from barnabas.config.group_keys import read_group_settings
from barnabas.config.keys import ConfigSource, Value, invalid, parse_value
from barnabas.config.listeners import (
    Listener,
    check_reachable,
    parse_address,
    parse_listeners,
    parse_protocol_map,
)
from barnabas.config.topic_config import TopicConfig
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.config.transaction_keys import read_transaction_settings
from barnabas.model.errors import ErrorCode, KafkaError

Layer = Mapping[str, str]
_EMPTY: Final[Layer] = MappingProxyType({})


class BrokerConfig:
    """An immutable view; `with_dynamic` makes another. Two with the same layers are equal.

    `static` is what the broker was started with, `dynamic_default` what was set for every
    broker and `dynamic_broker` what was set for this one while it ran; each is stronger than
    the one before. Raises KafkaError INVALID_CONFIG for an unknown name or unusable value.
    """

    def __init__(
        self,
        static: Layer = _EMPTY,
        dynamic_default: Layer = _EMPTY,
        dynamic_broker: Layer = _EMPTY,
    ) -> None:
        self.static: Layer = MappingProxyType(dict(static))
        self.dynamic_default: Layer = MappingProxyType(dict(dynamic_default))
        self.dynamic_broker: Layer = MappingProxyType(dict(dynamic_broker))
        self._values = _effective(static, dynamic_default, dynamic_broker)
        self.topic_defaults: Mapping[str, Value] = MappingProxyType(self._topic_defaults())
        """What a topic uses for every topic key it does not set, by the topic key's name."""
        self.default_topic_config = TopicConfig.from_maps({}, self.topic_defaults)
        self._read_identity()
        self._read_network()
        self._read_work()
        self.cleaner = read_cleaner_settings(self._values)
        self.controller = read_controller_settings(self._values)
        self.groups = read_group_settings(self._values)
        self.transactions = read_transaction_settings(self._values)
        self.cluster = read_cluster_settings(self._values)
        self._check_others_can_find_it()

    def __getitem__(self, name: str) -> Value:
        """The effective value of any broker key."""
        return self._values[name]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BrokerConfig):
            return NotImplemented
        return self._layers() == other._layers()

    def __hash__(self) -> int:
        return hash(tuple(frozenset(layer.items()) for layer in self._layers()))

    def __repr__(self) -> str:
        static, default, broker = map(dict, self._layers())
        return f"BrokerConfig({static!r}, {default!r}, {broker!r})"

    def with_dynamic(self, dynamic_default: Layer, dynamic_broker: Layer) -> "BrokerConfig":
        """The same start-up configuration under other dynamic layers."""
        return BrokerConfig(self.static, dynamic_default, dynamic_broker)

    def layers(self) -> tuple[tuple[ConfigSource, Layer], ...]:
        """The layers that were set by somebody, the strongest first."""
        return (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.dynamic_default),
            (ConfigSource.STATIC_BROKER_CONFIG, self.static),
        )

    def _layers(self) -> tuple[Layer, Layer, Layer]:
        return self.static, self.dynamic_default, self.dynamic_broker

    def _topic_defaults(self) -> dict[str, Value]:
        defaults: dict[str, Value] = {}
        for key in TOPIC_KEYS.values():
            defaults[key.name] = key.default
            for synonym in key.synonyms:
                value = self._values[synonym.name]
                if value is not None:
                    defaults[key.name] = _scaled(value, synonym.factor)
                    break
        return defaults

    def _read_identity(self) -> None:
        values: Mapping[str, Any] = self._values
        if "broker.id" in self.static and "node.id" not in self.static:
            self.node_id: int = values["broker.id"]
        else:
            self.node_id = values["node.id"]
        if values["broker.id"] not in (None, self.node_id):
            raise invalid(
                "broker.id", values["broker.id"], f"node.id says {self.node_id}; set only one"
            )
        self.broker_rack: str | None = values["broker.rack"]
        self.log_dir: str = (values["log.dirs"] or (values["log.dir"],))[0]

    def _read_network(self) -> None:
        values: Mapping[str, Any] = self._values
        self.allow_insecure: bool = values["allow.insecure"]
        map_key = "listener.security.protocol.map"
        protocols = parse_protocol_map(map_key, values[map_key])
        self.listeners: tuple[Listener, ...] = parse_listeners(
            "listeners", values["listeners"], protocols
        )
        check_reachable(self.listeners, allow_insecure=self.allow_insecure)
        self.advertised_listeners: tuple[Listener, ...] = self._advertised(protocols)
        """Empty when not set: each client is then told the address it has just used."""
        health = values["health.listener"]
        self.health_listener: tuple[str, int] | None = (
            None if health is None else parse_address("health.listener", health)
        )
        self.socket_request_max_bytes: int = values["socket.request.max.bytes"]
        self.connections_max_idle_ms: int = values["connections.max.idle.ms"]
        self.max_connections: int = values["max.connections"]
        self.max_connections_per_ip: int = values["max.connections.per.ip"]

    def _advertised(self, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
        key = "advertised.listeners"
        told = self._values[key]
        if not isinstance(told, tuple):
            return ()
        advertised = parse_listeners(key, told, protocols)
        if not {each.name for each in advertised} <= {each.name for each in self.listeners}:
            raise invalid(key, ",".join(told), "every advertised name must be in listeners")
        for each in advertised:
            if each.is_every_address:
                raise invalid(key, each, "set it to the address by which clients reach this broker")
        return advertised

    def _check_others_can_find_it(self) -> None:
        """A broker alone tells each client the address that it has just used. One of several is
        told of by the others, too, and to them: they need an address that leads to it."""
        first = self.listeners[0]
        told = bool(self.advertised_listeners)
        if self.cluster.zookeeper_connect and first.is_every_address and not told:
            raise invalid(
                "listeners",
                first,
                "a broker of a cluster has to say where it can be reached: listen at one address, "
                "or set advertised.listeners",
            )

    def _read_work(self) -> None:
        values: Mapping[str, Any] = self._values
        self.num_partitions: int = values["num.partitions"]
        self.default_replication_factor: int = values["default.replication.factor"]
        self.auto_create_topics_enable: bool = values["auto.create.topics.enable"]
        self.delete_topic_enable: bool = values["delete.topic.enable"]
        self.max_request_partition_size_limit: int = values["max.request.partition.size.limit"]
        self.fetch_max_bytes: int = values["fetch.max.bytes"]
        self.max_incremental_fetch_session_cache_slots: int = values[
            "max.incremental.fetch.session.cache.slots"
        ]
        self.producer_id_expiration_ms: int = values["producer.id.expiration.ms"]
        self.message_max_bytes: int = values["message.max.bytes"]
        self.log_retention_check_interval_ms: int = values["log.retention.check.interval.ms"]
        self.log_flush_offset_checkpoint_interval_ms: int = values[
            "log.flush.offset.checkpoint.interval.ms"
        ]
        self.log_flush_start_offset_checkpoint_interval_ms: int = values[
            "log.flush.start.offset.checkpoint.interval.ms"
        ]
        self.scrub_interval_ms: int = values["log.scrub.interval.ms"]
        self.scrub_max_bytes_per_second: int = values["log.scrub.max.bytes.per.second"]
        self.log_flush_scheduler_interval_ms: int = values["log.flush.scheduler.interval.ms"]
        self.num_recovery_threads_per_data_dir: int = values["num.recovery.threads.per.data.dir"]


def _scaled(value: Value, factor: int) -> Value:
    if factor == 1 or not isinstance(value, int):
        return value
    # A negative time means "for ever", in whatever unit it was written.
    return value * factor if value >= 0 else -1


def _effective(*layers: Layer) -> dict[str, Value]:
    """Every broker key's value. A layer that sets a key unsets its synonyms in weaker layers:
    `log.retention.hours` set at run time beats `log.retention.ms` from the file."""
    chosen: dict[str, str] = {}
    for layer in layers:
        for name in layer:
            for synonym in synonyms_of(name):
                chosen.pop(synonym, None)
        chosen.update(layer)
    values = {name: key.default for name, key in BROKER_KEYS.items()}
    for name, text in chosen.items():
        key = BROKER_KEYS.get(name)
        if key is None:
            raise KafkaError(ErrorCode.invalid_config, f"Unknown broker config name: {name}")
        values[name] = parse_value(key, text)
    return values
