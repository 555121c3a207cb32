"""A cluster of three is restarted again and again, broker by broker, and nobody may notice: no
partition goes without an acknowledged write for longer than three seconds.

`python tests/chaos/roll_run.py --rolls 10 --out bench/results/rolls.txt`: `barnabas cluster roll`
on the brokers of `barnabas up --brokers 3`, under the load of `operated_load`. Half a minute each.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos.operated_load import Load, Verdict
from tests.failover.foreground import running
from tests.failover.run import Command

from barnabas.node.local_cluster import free_ports

_GAP_S_MAX: Final = 3.0
"""So long may a partition go without an acknowledged write while its leader is restarted."""


def command(bootstrap: str, *arguments: str) -> dict[str, Any]:
    """`barnabas cluster … --json`, as a person would run it."""
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "cluster", *arguments, "--json", "-b", bootstrap],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"barnabas cluster {' '.join(arguments)}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rolls(count: int) -> tuple[list[str], Verdict]:
    """A line for each, and what came of the load."""
    lines, late = [], []
    with tempfile.TemporaryDirectory() as directory:
        port = str(free_ports(3)[0])
        with running("--brokers", "3", "--data", directory, "--port", port) as foreground:
            cluster = Command(foreground)
            load = Load(cluster)
            try:
                for number in range(1, count + 1):
                    began = time.monotonic()
                    told = command(cluster.bootstrap_servers, "roll", "--data", directory)
                    load.check_goes_on()
                    gap_s = load.largest_gap_s(began)
                    if gap_s > _GAP_S_MAX:
                        late.append(f"roll {number}: {gap_s:.2f} s without an acknowledged write")
                    away = ", ".join(f"{each['seconds_away']:.1f}" for each in told["restarted"])
                    lines.append(
                        f"roll {number:2}   {told['seconds']:5.1f} s, brokers away {away} s   "
                        f"largest gap in acknowledged writes {gap_s:5.2f} s"
                    )
                    print(lines[-1], file=sys.stderr, flush=True)
                verdict = load.end()
                verdict.late += late
            finally:
                load.stop()
            foreground.process.send_signal(signal.SIGTERM)
            foreground.end()
    return lines, verdict


def main() -> int:
    """All of it, to the screen and a file; 1 when anybody was harmed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rolls", type=int, default=10)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    # Without this the cluster would not be told to stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    lines, verdict = rolls(chosen.rolls)
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    return verdict.tell(
        [
            f"`barnabas cluster roll` {chosen.rolls} times: 3 brokers, 3 replicas, 2 must have it",
            f"({where}); two producers, a group that commits each record, a transactional copier.",
        ],
        lines,
        chosen.out,
    )


if __name__ == "__main__":
    sys.exit(main())
