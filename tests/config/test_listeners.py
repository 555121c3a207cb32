"""Which addresses a broker listens on, and which it refuses to."""

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.model.errors import KafkaError


def test_loopback_by_default() -> None:
    (listener,) = BrokerConfig().listeners
    assert listener == Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
    assert BrokerConfig().advertised_listeners == ()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_loopback_needs_no_permission(host: str) -> None:
    (listener,) = BrokerConfig({"listeners": f"PLAINTEXT://{host}:0"}).listeners
    assert listener.is_loopback
    assert str(listener) == f"PLAINTEXT://{host}:0"


@pytest.mark.parametrize("host", ["10.0.0.1", "example.com", "[fe80::1]", "127.0.0.1.example.com"])
def test_beyond_loopback_needs_allow_insecure(host: str) -> None:
    settings = {"listeners": f"PLAINTEXT://{host}:9092"}
    with pytest.raises(KafkaError, match=r"set allow\.insecure=true if that is meant"):
        BrokerConfig(settings)
    (listener,) = BrokerConfig({**settings, "allow.insecure": "true"}).listeners
    assert not listener.is_loopback


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_every_address_can_be_opened_but_not_advertised(host: str) -> None:
    settings = {"listeners": f"PLAINTEXT://{host}:9092", "allow.insecure": "true"}
    assert BrokerConfig(settings).advertised_listeners == ()
    advertised = {"advertised.listeners": f"PLAINTEXT://{host}:9092"}
    with pytest.raises(KafkaError, match="the address by which clients reach this broker"):
        BrokerConfig(settings | advertised)
    config = BrokerConfig({**settings, "advertised.listeners": "PLAINTEXT://example.com:19092"})
    assert str(config.advertised_listeners[0]) == "PLAINTEXT://example.com:19092"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("localhost:9092", "expected NAME://host:port"),
        ("PLAINTEXT://localhost", "expected NAME://host:port"),
        ("PLAINTEXT://::1:9092", "expected NAME://host:port"),
        ("PLAINTEXT://localhost:70000", "at most 65535"),
        ("PLAINTEXT://localhost:1,PLAINTEXT://localhost:2", "named twice"),
        ("SSL://localhost:1", "has no protocol for SSL"),
        ("", "must not be empty"),
    ],
)
def test_mistakes_are_named(text: str, problem: str) -> None:
    with pytest.raises(KafkaError, match=problem):
        BrokerConfig({"listeners": text})


def test_only_plaintext_is_spoken() -> None:
    settings = {
        "listeners": "OUTER://localhost:1",
        "listener.security.protocol.map": "OUTER:SASL_SSL",
    }
    with pytest.raises(KafkaError, match="protocol SASL_SSL is not available"):
        BrokerConfig(settings)


def test_an_advertised_name_must_be_a_listener() -> None:
    settings = {
        "advertised.listeners": "OUTER://example.com:1",
        "listener.security.protocol.map": "OUTER:PLAINTEXT",
    }
    with pytest.raises(KafkaError, match="every advertised name must be in listeners"):
        BrokerConfig(settings)
