"""A broker's configuration from file, environment, flags and what is set while it runs."""

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import load_broker_config
from barnabas.model.errors import BarnabasError, KafkaError

HOUR_MS = 3_600_000


def test_flags_beat_the_environment_which_beats_the_file() -> None:
    toml = "num.partitions = 2\ndefault.replication.factor = 3\nbroker.rack = 'a'\n"
    environment = {"BARNABAS_NUM_PARTITIONS": "4", "BARNABAS_BROKER_RACK": "b", "HOME": "/"}
    config = load_broker_config(toml=toml, environment=environment, flags={"num.partitions": "5"})
    assert config.num_partitions == 5
    assert config.broker_rack == "b"
    assert config.default_replication_factor == 3
    assert config.fetch_max_bytes == 57_671_680


def test_the_file_may_use_dotted_keys_tables_lists_and_quotes() -> None:
    toml = """
    auto.create.topics.enable = false
    listeners = ["PLAINTEXT://localhost:1", "INNER://127.0.0.1:2"]
    listener.security.protocol.map = "INNER:PLAINTEXT"
    "max.connections" = 10
    "max.connections.per.ip" = 3
    [log]
    dirs = "data"
    retention.ms = 7
    [log.segment]
    bytes = 1048576
    """
    config = load_broker_config(toml=toml)
    assert not config.auto_create_topics_enable
    assert [each.port for each in config.listeners] == [1, 2]
    assert (config.max_connections, config.max_connections_per_ip) == (10, 3)
    assert config.log_dir == "data"
    assert config.default_topic_config.retention_ms == 7
    assert config.default_topic_config.segment_bytes == 1_048_576


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        (
            "num.partition = 1",
            "there is no broker key num.partition; did you mean num.partitions.",
        ),
        ("zzz = 1", "there is no broker key zzz."),
        (
            "num.partitions = 0",
            "Invalid value 0 for configuration num.partitions: Value must be at least 1.",
        ),
        (
            "num.partitions = 2020-01-01",
            "num.partitions must be a string, a number, true, false or a list of strings.",
        ),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(toml: str, sentence: str) -> None:
    with pytest.raises(BarnabasError) as caught:
        load_broker_config(toml=toml, toml_name="my.toml")
    assert str(caught.value) == f"my.toml: {sentence}"


def test_a_file_that_is_no_toml_is_named() -> None:
    with pytest.raises(BarnabasError, match=r"barnabas\.toml is not valid TOML: "):
        load_broker_config(toml="num.partitions")


def test_an_unknown_variable_is_a_mistake_too() -> None:
    with pytest.raises(BarnabasError, match=r"the environment: .* did you mean log.retention.ms"):
        load_broker_config(environment={"BARNABAS_LOG_RETENTON_MS": "1"})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_wins(settings: dict[str, str], expected: int) -> None:
    assert BrokerConfig(settings).topic_defaults["retention.ms"] == expected


def test_a_stronger_layer_wins_whatever_unit_it_uses() -> None:
    config = BrokerConfig({"log.retention.ms": "5"}, {"log.retention.hours": "1"})
    assert config.topic_defaults["retention.ms"] == HOUR_MS
    stronger = config.with_dynamic(config.dynamic_default, {"log.retention.minutes": "1"})
    assert stronger.topic_defaults["retention.ms"] == 60_000


def test_the_scheduler_is_the_fallback_of_the_flush_interval_only() -> None:
    config = BrokerConfig({"log.flush.scheduler.interval.ms": "9"})
    assert config.topic_defaults["flush.ms"] == 9
    both = BrokerConfig({"log.flush.interval.ms": "3"}, {"log.flush.scheduler.interval.ms": "9"})
    assert (both.topic_defaults["flush.ms"], both.log_flush_scheduler_interval_ms) == (3, 9)


def test_broker_id_is_another_name_of_node_id() -> None:
    assert BrokerConfig().node_id == 0
    assert BrokerConfig({"broker.id": "3"}).node_id == 3
    assert BrokerConfig({"broker.id": "3", "node.id": "3"}).node_id == 3
    with pytest.raises(KafkaError, match=r"node\.id says 4"):
        BrokerConfig({"broker.id": "3", "node.id": "4"})


def test_one_log_directory() -> None:
    assert BrokerConfig({"log.dir": "a", "log.dirs": "b"}).log_dir == "b"
    with pytest.raises(KafkaError, match="one directory"):
        BrokerConfig({"log.dirs": "a,b"})


def test_equal_layers_make_equal_configs() -> None:
    one, other = BrokerConfig({"node.id": "1"}), BrokerConfig({"node.id": "1"})
    assert one == other
    assert hash(one) == hash(other)
    assert one != other.with_dynamic({"log.retention.ms": "1"}, {})
