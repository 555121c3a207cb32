"""From the driver to whoever started it: events on stderr, and everything else in a file."""

import json
import subprocess
import sys
from pathlib import Path

from barnabas.spark.pipelines.events import Event, Listener

WAIT_S = 60.0

DRIVER = """
import os, subprocess, sys
from barnabas.spark.pipelines.events import Teller
print("before", file=sys.stderr, flush=True)
teller = Teller()
teller.send_noise_to(sys.argv[1])
print("noise", file=sys.stderr, flush=True)
subprocess.run([sys.executable, "-c", "import sys; print('of a child', file=sys.stderr)"])
teller.tell("died", "Ünder\\nway.", query="totals")
teller.tell("died", "é" * 10_000, query="totals")
"""


def heard(*words: str) -> list[Event]:
    events: list[Event] = []
    with Listener(events.append) as listener:
        command = [sys.executable, *words]
        subprocess.run(command, stderr=listener.descriptor, timeout=WAIT_S, check=True)
    return events


def test_events_arrive_whole_and_noise_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    before, first, long = heard("-c", DRIVER, str(log))
    assert before == {"event": "note", "sentence": "before"}
    assert first == {"event": "died", "query": "totals", "sentence": "Ünder\nway."}
    assert long["sentence"].endswith("é…")
    assert 1000 < len(long["sentence"]) < len(json.dumps(long, ensure_ascii=False).encode()) < 4096
    assert log.read_text() == "noise\nof a child\n"


SLOW = """
from barnabas.spark.pipelines.events import Teller
teller = Teller()
for number in range(5000):
    teller.tell("note", "x" * 100, number=number)
print("done")
"""


def test_a_reader_that_does_not_read_stops_nobody() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"done\n"
        driver.communicate(timeout=WAIT_S)
