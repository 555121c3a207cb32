"""Leaders killed ten times over, in two ways, while clients of three libraries write and read.

`python tests/failover/run.py --out bench/results/failover.txt`: first in the cluster that `barnabas
up --brokers 3` starts, which starts a dead broker again; then in one where it stays away until
others have taken over. Takes four minutes.
"""

import argparse
import logging
import os
import platform
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.failover.foreground import Foreground, running
from tests.failover.stage import begin_traffic
from tests.failover.traffic import Traffic

from barnabas.node.local_cluster import SESSION_MS, free_ports
from barnabas.testing import Cluster
from barnabas.testing.metadata import ask_metadata

_TOPIC = "numbers-confluent-kafka"
Times = list[dict[str, float]]


class Command:
    """The cluster of `barnabas up --brokers 3`, with as much of `Cluster` as is needed here."""

    def __init__(self, foreground: Foreground) -> None:
        self._foreground = foreground
        self.bootstrap_servers, self._pids = foreground.ready()
        self._deaths = 0

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """As broker 1 says, or the next one that answers."""
        for server in self.bootstrap_servers.split(","):
            host, port = server.split(":")
            try:
                found = ask_metadata((host, int(port)), [topic], 5.0).topics.get(topic, [])
            except OSError:
                continue
            for facts in found:
                if facts.number == partition and facts.leader > 0:
                    return facts.leader
        return None

    def wait_until_in_sync(self) -> None:
        """All brokers tell of the same topics, each partition with three replicas in sync."""
        deadline = time.monotonic() + 60
        while not self._is_in_sync():
            if time.monotonic() > deadline:
                raise TimeoutError("not in sync after a minute")
            time.sleep(0.1)

    def _is_in_sync(self) -> bool:
        told = []
        for server in self.bootstrap_servers.split(","):
            host, port = server.split(":")
            try:
                told.append(ask_metadata((host, int(port)), None, 5.0).topics)
            except OSError:
                return False
        everything = [facts for partitions in told[0].values() for facts in partitions]
        whole = all(facts.leader > 0 and len(facts.in_sync) == 3 for facts in everything)
        return whole and all(each == told[0] for each in told)

    def kill(self, number: int) -> None:
        """As a person would."""
        self._deaths += 1
        os.kill(self._pids[number], signal.SIGKILL)

    def back(self, number: int) -> None:
        """Wait until the command has it running again."""
        line = self._foreground.wait_for(r"is back at \S+, as process (\d+)", self._deaths)
        assert re.search(rf"Broker {number} ", line.string), line.string
        self._pids[number] = int(line[1])


def kill_leaders(
    cluster: Command | Cluster, traffic: Traffic, kills: int, back: Callable[[int], None]
) -> Times:
    """So many times; how long writes to the dead leader's partition stood still, by library."""
    times: Times = []
    for number in range(1, kills + 1):
        cluster.wait_until_in_sync()
        leader = cluster.leader_of(_TOPIC)
        assert leader is not None
        killed_at = time.monotonic()
        cluster.kill(leader)
        traffic.wait_for_more()
        times.append(traffic.resumed_s(killed_at))
        back(leader)
        traffic.wait_for_more()
        tell = "   ".join(f"{library} {took:5.2f} s" for library, took in times[-1].items())
        print(f"kill {number:2}  broker {leader}   {tell}", file=sys.stderr, flush=True)
    return times


def table(title: str, times: Times, traffic: Traffic) -> str:
    """What is to be told of one series."""
    lines = [title, ""]
    for number, each in enumerate(times, 1):
        lines.append(f"kill {number:2}   " + "   ".join(f"{k} {v:5.2f} s" for k, v in each.items()))
    everything = [took for each in times for took in each.values()]
    sent = sum(notes.sent for notes in traffic.notes.values())
    acknowledged = sum(len(notes.acknowledged) for notes in traffic.notes.values())
    read = sum(notes.read() for notes in traffic.notes.values())
    spread = (
        f"until writes resume: least {min(everything):.2f} s, median "
        f"{statistics.median(everything):.2f} s, most {max(everything):.2f} s"
    )
    verdict = "none lost, none twice, in order; no client was told of an error"
    lines += [
        "",
        spread,
        f"{sent:,} records sent, {acknowledged:,} acknowledged, {read:,} read: {verdict}",
        "",
    ]
    return "\n".join(lines)


def by_command(kills: int) -> str:
    """In the cluster that the command line starts."""
    with tempfile.TemporaryDirectory() as directory:
        port = str(free_ports(3)[0])
        arguments = ("--brokers", "3", "--data", directory, "--port", port)
        with running(*arguments) as foreground:
            cluster = Command(foreground)
            traffic = begin_traffic(cluster, "numbers")
            try:
                times = kill_leaders(cluster, traffic, kills, cluster.back)
                traffic.end()
            finally:
                traffic.stop()
            foreground.process.send_signal(signal.SIGTERM)
            foreground.end()
    title = (
        f"`barnabas up --brokers 3`, its leader killed {kills} times; it is started again after a "
        "second (longer, if it dies again and again), and others may take over then."
    )
    return table(title, times, traffic)


def staying_away(kills: int) -> str:
    """In a cluster where a dead broker stays dead until others have taken over."""
    config = {"zookeeper.session.timeout.ms": SESSION_MS}
    with Cluster(config=config) as cluster:
        traffic = begin_traffic(cluster, "numbers")
        try:
            times = kill_leaders(cluster, traffic, kills, cluster.start)
            traffic.end()
        finally:
            traffic.stop()
    title = (
        f"The leader killed {kills} times, and not started again before others have taken over: "
        f"they notice when its session of {SESSION_MS / 1000:g} s ends."
    )
    return table(title, times, traffic)


def main() -> int:
    """Both series, to the screen and a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    for library in ("aiokafka", "kafka"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    text = (
        "Time until writes with acks=all resume when a leader is killed (kill -9): 3 brokers, 3 "
        "replicas,\nmin.insync.replicas=2, a writer and a reader of each library all the while "
        f"({where}).\n\n{by_command(chosen.kills)}\n{staying_away(chosen.kills)}"
    )
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
