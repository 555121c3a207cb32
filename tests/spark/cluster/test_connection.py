"""What options say about a connection, and what is wrong with them."""

import pickle
from pathlib import Path

import pytest

from barnabas.spark.cluster.connection import CONNECTION_OPTIONS, Connection, Server
from barnabas.spark.errors import SparkJobError

SERVERS = "kafka.bootstrap.servers"


def connection(**options: str) -> Connection:
    return Connection.from_options({SERVERS: "one:9092", **options})


def problem(options: dict[str, str]) -> str:
    with pytest.raises(SparkJobError) as caught:
        Connection.from_options(options)
    return str(caught.value)


def test_servers_alone_are_enough() -> None:
    found = Connection.from_options({SERVERS: "one:9092, [::1]:9093 ,PLAINTEXT://two:1,,one:9092,"})
    assert found.servers == (Server("one", 9092), Server("::1", 9093), Server("two", 1))
    assert str(found) == "one:9092,[::1]:9093,two:1"
    assert (found.request_timeout_s, found.patience_s, found.tls) == (30.0, 60.0, None)
    assert found.client_id == "barnabas-spark"


def test_every_option_is_read() -> None:
    found = connection(
        **{
            "kafka.client.id": "me",
            "kafka.request.timeout.ms": "1500",
            "kafka.socket.connection.setup.timeout.ms": "250",
            "kafka.default.api.timeout.ms": "2000",
            "kafka.security.protocol": "plaintext",
        }
    )
    assert (found.client_id, found.request_timeout_s) == ("me", 1.5)
    assert (found.connect_timeout_s, found.patience_s) == (0.25, 2.0)
    assert all(name == name.lower() and name.startswith("kafka.") for name in CONNECTION_OPTIONS)


def test_it_travels_and_stays_the_same() -> None:
    found = connection()
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert hash(again) == hash(found)


@pytest.mark.parametrize(
    "servers",
    [
        "one", "one:", ":9092", "one:port", "one:0", "one:65536", "one:-1", "one:٣", "::1:9092",
        "one:9092;two:9092", "one two:1", "one:9092/topic",
    ],
)  # fmt: skip
def test_a_malformed_list_is_quoted(servers: str) -> None:
    said = problem({SERVERS: servers})
    assert repr(servers) in said
    assert "broker1:9092,broker2:9092" in said


@pytest.mark.parametrize("options", [{}, {SERVERS: " "}, {SERVERS: ","}])
def test_missing_servers(options: dict[str, str]) -> None:
    assert problem(options) == (
        "The option kafka.bootstrap.servers is missing: for instance broker1:9092,broker2:9092."
    )


@pytest.mark.parametrize(
    "extra",
    [
        {"kafka.security.protocol": "SASL_SSL"},
        {"kafka.security.protocol": "sasl_plaintext"},
        {"kafka.sasl.mechanism": "PLAIN"},
        {"kafka.sasl.jaas.config": "secret"},
    ],
)
def test_sasl_is_refused_with_a_way_out(extra: dict[str, str]) -> None:
    said = problem({SERVERS: "one:1", **extra})
    assert "SASL" in said
    assert "kafka.security.protocol=SSL" in said
    assert "secret" not in said


def test_a_protocol_that_does_not_exist() -> None:
    said = problem({SERVERS: "one:1", "kafka.security.protocol": "TLS"})
    assert said == "kafka.security.protocol is 'TLS': PLAINTEXT or SSL is what it can be."


@pytest.mark.parametrize("text", ["0", "-5", "soon", "1.5", "2147483648", ""])
def test_times_are_milliseconds(text: str) -> None:
    said = problem({SERVERS: "one:1", "kafka.request.timeout.ms": text})
    assert said == f"kafka.request.timeout.ms is {text!r}: give milliseconds, such as 30000."


def test_tls_files_must_be_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    ssl = {SERVERS: "one:1", "kafka.security.protocol": "SSL"}
    said = problem({**ssl, "kafka.ssl.truststore.location": missing})
    assert missing in said
    assert "every machine" in said
    (tmp_path / "ca.pem").write_text("no certificate")
    found = Connection.from_options({**ssl, "kafka.ssl.truststore.location": missing})
    assert found.tls is not None
    with pytest.raises(SparkJobError, match="must be PEM"):
        found.tls.context()


def test_tls_stores_must_be_pem() -> None:
    ssl = {SERVERS: "one:1", "kafka.security.protocol": "SSL"}
    assert "openssl pkcs12" in problem({**ssl, "kafka.ssl.truststore.type": "JKS"})


def test_a_key_needs_its_certificate(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("key")
    ssl = {SERVERS: "one:1", "kafka.security.protocol": "SSL"}
    assert "kafka.ssl.certificate.location" in problem({**ssl, "kafka.ssl.key.location": str(key)})


def test_tls_options_without_tls_are_a_mistake() -> None:
    said = problem({SERVERS: "one:1", "kafka.ssl.ca.location": "/x"})
    assert "set that to SSL" in said


def test_passwords_are_not_shown() -> None:
    found = connection(
        **{
            "kafka.security.protocol": "SSL",
            "kafka.ssl.key.password": "hush",
            "kafka.ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found.tls is not None
    assert found.tls.key_password == "hush"
    assert not found.tls.checks_host
    assert "hush" not in repr(found)
