"""A broker is added to a running cluster and takes its share; another is emptied and removed.

`python tests/chaos/drain_run.py --out bench/results/drain.txt`: `barnabas cluster balance` and
`barnabas cluster drain` under the load of `operated_load`, with some data to copy.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Producer
from tests.chaos.operated_load import Load, Verdict
from tests.chaos.roll_run import command
from tests.failover.libraries import QUIET
from tests.failover.stage import make_topic

from barnabas.node.local_broker import LocalBroker
from barnabas.node.local_cluster import at_home, free_ports
from barnabas.testing import Cluster

_DATA = "data"
_PARTITIONS = 6
_RECORD_BYTES = 100_000
_NEW, _OLD = 4, 1


def fill(bootstrap: str, megabytes: int) -> None:
    """Something to copy."""
    producer = Producer({"bootstrap.servers": bootstrap} | QUIET)
    problems: list[str] = []
    for number in range(megabytes * 1_000_000 // _RECORD_BYTES):
        while True:
            try:
                producer.produce(
                    _DATA,
                    os.urandom(_RECORD_BYTES),
                    partition=number % _PARTITIONS,
                    on_delivery=lambda error, _: problems.append(str(error)) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    assert not problems, problems[:3]


@contextmanager
def one_more(cluster: Cluster) -> Iterator[LocalBroker]:
    """A fourth broker on the same ZooKeeper."""
    (port,) = free_ports(1)
    broker = LocalBroker(
        _NEW,
        ("127.0.0.1", port),
        {
            **at_home(3),
            "zookeeper.connect": cluster.zookeeper.connect,
            "node.id": str(_NEW),
            "log.dirs": str(cluster.data / f"broker-{_NEW}"),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        },
        hear=lambda _: None,
    )
    broker.start()
    try:
        broker.wait_ready()
        yield broker
    finally:
        broker.kill()


def told(what: str, done: dict[str, Any], gap_s: float) -> str:
    """A line of results."""
    line = (
        f"{what}: {done['moved_replicas']} replicas, {done['moved_bytes'] / 1e6:,.1f} MB moved in "
        f"{done['seconds']:.1f} s; largest gap in acknowledged writes {gap_s:.2f} s"
    )
    print(line, file=sys.stderr, flush=True)
    return line


def held(bootstrap: str) -> str:
    """Who holds and leads how much."""
    rows = command(bootstrap, "status")["brokers"]
    return ", ".join(f"broker {each['id']} {each['replicas']}/{each['leads']}" for each in rows)


def run(megabytes: int, throttle: int | None) -> tuple[list[str], Verdict]:
    """What was done, and what came of the load."""
    limit = () if throttle is None else ("--throttle", str(throttle))
    lines = []
    with Cluster() as cluster:
        make_topic(cluster, _DATA, _PARTITIONS)
        fill(cluster.bootstrap_servers, megabytes)
        load = Load(cluster)
        try:
            with one_more(cluster) as added:
                bootstrap = f"{cluster.bootstrap_servers},{added.bootstrap}"
                lines.append(f"replicas/leaders before: {held(bootstrap)}")
                began = time.monotonic()
                done = command(bootstrap, "balance", *limit)
                load.check_goes_on()
                lines.append(told(f"balance onto broker {_NEW}", done, load.largest_gap_s(began)))
                lines.append(f"replicas/leaders then: {held(bootstrap)}")
                began = time.monotonic()
                done = command(bootstrap, "drain", str(_OLD), *limit)
                cluster.stop(_OLD)
                load.check_goes_on()
                lines.append(
                    told(f"drain and stop of broker {_OLD}", done, load.largest_gap_s(began))
                )
                lines.append(f"replicas/leaders after: {held(bootstrap)}")
                status = command(bootstrap, "status")
                lines.append(f"healthy: {'yes' if status['healthy'] else f'no: {status}'}")
                verdict = load.end()
                if not status["healthy"]:
                    verdict.failures.append("the cluster is not healthy")
        finally:
            load.stop()
    return lines, verdict


def main() -> int:
    """All of it, to the screen and a file; 1 when anybody was harmed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--throttle", type=int)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    lines, verdict = run(chosen.megabytes, chosen.throttle)
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    limit = "" if chosen.throttle is None else f", {chosen.throttle:,} bytes a second at the most"
    return verdict.tell(
        [
            f"A broker added to 3, and another removed, under load ({where});",
            f"{chosen.megabytes} MB on 3 replicas{limit}.",
        ],
        lines,
        chosen.out,
    )


if __name__ == "__main__":
    sys.exit(main())
