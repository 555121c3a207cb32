"""`barnabas cluster` and `barnabas events`, as people run them, where it takes several brokers."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from tests.failover.foreground import Foreground, started

from barnabas.cli.cluster_link import ClusterLink
from barnabas.cli.cluster_orders import reassign
from barnabas.cli.cluster_throttle import throttle
from barnabas.operating.plan import Change
from barnabas.operating.snapshot import Place
from barnabas.testing import Cluster

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(cluster: Cluster) -> Run:
    """Run `barnabas …` against the cluster."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "barnabas", *arguments, "-b", cluster.bootstrap_servers],
            input=stdin, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def link(cluster: Cluster) -> Iterator[ClusterLink]:
    with ClusterLink(cluster.bootstrap_servers) as link:
        yield link


def test_a_drain_that_is_refused_has_cordoned_nobody(run: Run) -> None:
    # Nobody has used groups yet: the lock of the command is what has their topic made, with three
    # replicas, so that no other broker could take those of the third.
    assert run("cluster", "drain", "3", "--dry-run").returncode == 0
    done = run("cluster", "drain", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert "without broker 3 there is no other broker left" in done.stderr
    assert "stays cordoned" not in done.stderr
    told = json.loads(run("cluster", "status", "--json").stdout)
    assert [each["id"] for each in told["brokers"] if each["cordoned"]] == []


def test_a_mistyped_number_takes_no_moves_back(
    cluster: Cluster, run: Run, link: ClusterLink
) -> None:
    place = Place("slow", 0)
    run("topic", "create", place.topic, "--partitions", "1", "--replicas", "1")
    holder = cluster.leader_of(place.topic)
    assert holder is not None
    target = next(each for each in (1, 2, 3) if each != holder)
    run("produce", place.topic, stdin=f"{'x' * 1000}\n" * 1000)
    throttle(link, [Change(place, (holder,), (target,), 0)], link.snapshot().brokers, 1000)
    assert reassign(link, {place: (target,)}) == []
    done = run("cluster", "drain", "99", "--cancel")
    assert (done.returncode, done.stdout) == (1, "")
    assert "There is no broker 99" in done.stderr
    assert place in link.snapshot(moves_needed=True).moving
    assert run("cluster", "drain", str(target), "--cancel").stdout.startswith("1 moves")
    assert place not in link.snapshot(moves_needed=True).moving


def test_events_tell_of_a_broker_that_dies_and_comes_back(cluster: Cluster, run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "1")
    cluster.wait_until_in_sync()
    victim = cluster.leader_of("orders")
    assert victim is not None
    arguments = ["events", "--follow", "--topic", "orders", "--interval", "0.1"]
    arguments += ["--bootstrap", cluster.bootstrap_servers]
    with started(*arguments, "--json") as objects, started(*arguments) as text:
        _wait_until_told(run, objects, text)
        cluster.kill(victim)
        text.wait_for(rf"Z  broker {victim} is dead$")
        # Which of both depends on whether it is looked at between the death and the election.
        text.wait_for(
            rf"Z  orders-0 is led (by broker \d, after broker {victim}|again, by broker \d) "
        )
        text.wait_for(rf"Z  the ISR of orders-0 shrank by {victim}: \d,\d of ")
        cluster.start(victim)
        text.wait_for(rf"Z  broker {victim} is back at 127\.0\.0\.1:\d+$")
        text.wait_for(rf"Z  the ISR of orders-0 grew by {victim}: 1,2,3 of ")
        objects.wait_for('"isr-grown"')
        for following in (objects, text):
            following.process.send_signal(signal.SIGINT)
            following.end()
    told = [json.loads(line) for line in objects.said if line.startswith("{")]
    found = {each["event"]: each for each in told}
    assert found["broker-dead"]["broker"] == found["broker-back"]["broker"] == victim
    elected = next(
        each
        for each in told
        if each["event"] in ("leader-moved", "partition-online") and each["partition"] == 0
    )
    assert elected.get("to", elected.get("leader")) not in (None, victim)
    assert found["isr-shrunk"]["changed"] == found["isr-grown"]["changed"] == [victim]
    kinds = [each["event"] for each in told]
    assert kinds.index("broker-dead") < told.index(elected) < kinds.index("broker-back")
    assert kinds.index("broker-back") < kinds.index("isr-grown")
    times = [each["time_ms"] for each in told]
    assert times == sorted(times)


def _wait_until_told(run: Run, *following: Foreground) -> None:
    """Until they have looked once, which nobody can see: the topic is changed until they tell."""
    partitions = 1
    deadline = time.monotonic() + 60
    while not all(each.said for each in following):
        partitions += 1
        run("topic", "alter", "orders", "--partitions", str(partitions))
        assert time.monotonic() < deadline
