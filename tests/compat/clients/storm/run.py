"""`make test-storm`: the topology undisturbed and with its broker killed, and what was counted.

    python -m tests.compat.clients.storm.run --out bench/results/storm.txt

Where Storm can not be had, one line says what is missing, and nothing is written.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from tests.compat.clients.storm import jars
from tests.compat.clients.storm.plays import PARTITIONS, Counted, undisturbed, with_a_kill

PLAYS: dict[str, Callable[[], Counted]] = {
    "undisturbed": undisturbed,
    "the broker killed (kill -9) in the middle": with_a_kill,
}


def told(title: str, counted: Counted) -> str:
    """The lines about one play."""
    output = (
        f"{counted.sent:,} records sent, {len(counted.found):,} different ones in the output, "
        f"{len(counted.missing):,} missing, {len(counted.foreign):,} that nobody sent, "
        f"{counted.doubled:,} twice"
    )
    commits = (
        f"{counted.committed:,} of {counted.sent:,} committed by the spout's group, lag 0; "
        f"{counted.seconds:.0f} s"
    )
    lines = [title, output, commits]
    if counted.read_before_the_kill is not None:
        before = f"{counted.read_before_the_kill:,} were in the output when the broker died"
        lines.insert(1, before)
    return "\n  ".join(lines)


def is_right(counted: Counted) -> bool:
    """At least once: nothing missing, nothing strange, everything committed."""
    return not counted.missing and not counted.foreign and counted.committed == counted.sent


def main() -> int:
    """Both plays, to the screen and a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if not jars.available():
        print(f"test-storm is skipped: it {jars.NEEDED}.")
        return 0
    print(f"Storm {jars.STORM_VERSION}: its jars are brought when missing …", file=sys.stderr)
    jars.class_path()
    text = (
        f"Apache Storm {jars.STORM_VERSION} (LocalCluster, KafkaSpout at least once, KafkaBolt "
        f"with acks=all, kafka-clients {jars.KAFKA_CLIENTS_VERSION}):\na topic of {PARTITIONS} "
        "partitions, its values in capitals, another topic "
        f"({os.cpu_count()} cores, Python {platform.python_version()}).\n"
    )
    results = []
    for title, play in PLAYS.items():
        print(f"{title} …", file=sys.stderr, flush=True)
        results.append(play())
        text += f"\n{told(title, results[-1])}\n"
    good = sum(map(is_right, results))
    text += f"\n{good} passed, {len(results) - good} failed\n"
    print(text, end="")
    if chosen.out is not None:
        chosen.out.write_text(text)
    return 0 if good == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
