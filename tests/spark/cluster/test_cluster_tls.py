"""TLS between a job and its brokers, with certificates made for the occasion."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.spark.cluster.stage import Road, make_topic

from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError
from barnabas.testing import Broker

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="certificates are made with openssl"
)


@dataclass(frozen=True)
class Authority:
    """Who signs; the private keys lie beside the certificates."""

    home: Path

    @property
    def trusted(self) -> str:
        return str(self.home / "ca.pem")

    def make(self) -> None:
        self._openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tests -out ca.pem", "ca")

    def sign(self, name: str, host: str, password: str | None = None) -> tuple[str, str]:
        """The certificate and the key of somebody at this address."""
        locked = "-nodes" if password is None else f"-passout pass:{password}"
        self._openssl(f"req -newkey rsa:2048 -subj /CN={name} {locked} -out {name}.csr", name)
        (self.home / "extensions").write_text(f"subjectAltName=IP:{host}\n")
        self._openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
            f"-extfile extensions -out {name}.pem"
        )
        return str(self.home / f"{name}.pem"), str(self.home / f"{name}.key")

    def _openssl(self, arguments: str, key_of: str | None = None) -> None:
        key = [] if key_of is None else ["-keyout", f"{key_of}.key"]
        command = ["openssl", *arguments.split(), *key]
        subprocess.run(command, cwd=self.home, check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs whatever a test needs."""
    found = Authority(tmp_path_factory.mktemp("tls"))
    found.make()
    return found


@pytest.fixture(scope="module")
def port(authority: Authority) -> Iterator[int]:
    """Where a broker listens with TLS, and lets nobody in without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("server", "127.0.0.1"))
    context.load_verify_locations(authority.trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    yield from road_to_a_broker(context)


def road_to_a_broker(context: ssl.SSLContext) -> Iterator[int]:
    road = Road(context)
    with Broker(config={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{road.port}"}) as broker:
        road.target = broker.port
        yield road.port
        road.close()


@pytest.fixture(scope="module")
def options(authority: Authority, port: int) -> dict[str, str]:
    """What lets a client in."""
    certificate, key = authority.sign("client", "127.0.0.1", "hush")
    return {
        "kafka.bootstrap.servers": f"127.0.0.1:{port}",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": authority.trusted,
        "kafka.ssl.certificate.location": certificate,
        "kafka.ssl.key.location": key,
        "kafka.ssl.key.password": "hush",
        "kafka.default.api.timeout.ms": "2000",
    }


def test_both_sides_show_who_they_are(options: dict[str, str]) -> None:
    cluster = Cluster(Connection.from_options(options))
    places = make_topic(cluster, "secret", 2)
    assert cluster.latest(places, committed=True) == dict.fromkeys(places, 0)
    cluster.close()


def test_one_file_with_key_and_certificate(options: dict[str, str], tmp_path: Path) -> None:
    both = tmp_path / "keystore.pem"
    names = ("kafka.ssl.key.location", "kafka.ssl.certificate.location")
    both.write_text("".join(Path(options[name]).read_text() for name in names))
    rest = {key: value for key, value in options.items() if key not in names}
    java = {
        "kafka.ssl.keystore.location": str(both),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.truststore.location": rest.pop("kafka.ssl.ca.location"),
    }
    cluster = Cluster(Connection.from_options(rest | java))
    assert cluster.cluster_id()
    cluster.close()


def test_a_broker_that_nobody_vouches_for(options: dict[str, str], tmp_path: Path) -> None:
    other = Authority(tmp_path)
    other.make()
    cluster = Cluster(Connection.from_options(options | {"kafka.ssl.ca.location": other.trusted}))
    with pytest.raises(SparkJobError, match=r"CERTIFICATE_VERIFY_FAILED.*truststore\.location"):
        cluster.topic_names()


def test_a_certificate_for_another_host(authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("elsewhere", "127.0.0.9"))
    for port in road_to_a_broker(context):
        options = {
            "kafka.bootstrap.servers": f"127.0.0.1:{port}",
            "kafka.security.protocol": "SSL",
            "kafka.ssl.ca.location": authority.trusted,
        }
        with pytest.raises(SparkJobError, match="the certificate names this host"):
            Cluster(Connection.from_options(options)).topic_names()
        unchecked = options | {"kafka.ssl.endpoint.identification.algorithm": ""}
        cluster = Cluster(Connection.from_options(unchecked))
        assert cluster.topic_names() == []
        cluster.close()


def test_a_client_without_a_certificate(options: dict[str, str]) -> None:
    alone = {key: value for key, value in options.items() if ".key." not in key}
    del alone["kafka.ssl.certificate.location"]
    # The broker may say why, or just hang up, whichever the client notices first.
    with pytest.raises(SparkJobError, match=r"does not agree on TLS|can be reached"):
        Cluster(Connection.from_options(alone)).topic_names()


def test_a_wrong_password(options: dict[str, str]) -> None:
    wrong = Connection.from_options(options | {"kafka.ssl.key.password": "loud"})
    with pytest.raises(SparkJobError, match=r"kafka\.ssl\.key\.password must fit"):
        Cluster(wrong).topic_names()


def test_a_listener_without_tls(options: dict[str, str]) -> None:
    with Broker() as broker:
        plain = options | {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "kafka.default.api.timeout.ms": "100",
        }
        with pytest.raises(SparkJobError, match="TLS"):
            Cluster(Connection.from_options(plain)).topic_names()
