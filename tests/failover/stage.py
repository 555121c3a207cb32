"""What happens to a cluster in these tests, and who stands where in it."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.failover.libraries import LIBRARIES, QUIET
from tests.failover.traffic import PARTITIONS, Traffic

from barnabas.link.broker import Broker as Asked
from barnabas.link.sync import Link
from barnabas.testing import Cluster
from barnabas.wire.messages import newest_type

FIND_COORDINATOR = 10
GROUP, TRANSACTION = 0, 1


class Brokers(Protocol):
    """What is needed of a cluster to send traffic through it."""

    @property
    def bootstrap_servers(self) -> str:
        """What clients want to know."""
        ...

    def leader_of(self, topic: str, partition: int = 0) -> int | None: ...

    def wait_until_in_sync(self) -> None: ...


def make_topic(cluster: Brokers, name: str, partitions: int = PARTITIONS, **configs: str) -> None:
    """Create a topic with a replica on each broker, and wait until all know it."""
    admin = AdminClient(QUIET | {"bootstrap.servers": cluster.bootstrap_servers})
    made = admin.create_topics([NewTopic(name, partitions, 3, config=configs)])
    made[name].result(30)
    wait_for(lambda: cluster.leader_of(name) is not None)
    cluster.wait_until_in_sync()


def wait_for(is_so: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it is not so after {timeout_s:g} s")
        time.sleep(0.05)


def begin_traffic(cluster: Brokers, prefix: str, libraries: list[str] | None = None) -> Traffic:
    """A writer and a reader of each library, at work when this returns."""
    traffic = Traffic()
    for library in libraries or LIBRARIES:
        topic = f"{prefix}-{library}"
        make_topic(cluster, topic)
        write, read = LIBRARIES[library]
        traffic.add(
            library, topic, write(cluster.bootstrap_servers), read(cluster.bootstrap_servers)
        )
    traffic.wait_for_more()
    return traffic


def coordinator_of(cluster: Cluster, name: str, kind: int = GROUP) -> int:
    """The broker that coordinates a group or a transactional id."""
    request: Any = newest_type(FIND_COORDINATOR, "request")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        host, port = cluster.bootstrap_servers.split(",")[cluster.running[0] - 1].split(":")
        with Asked(Link(host, int(port), timeout_s=10)) as broker:
            answer = broker.ask(FIND_COORDINATOR, request(key_type=kind, coordinator_keys=(name,)))
        (found,) = answer.coordinators
        if found.error_code.value == 0:
            return int(found.node_id)
        time.sleep(0.05)
    raise TimeoutError(f"nobody coordinates {name}")
