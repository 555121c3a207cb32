"""A stopped kill run of a pipeline goes on until its input is as long as planned."""

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.committed import committed
from tests.chaos.pipelines.feeding import CHUNK, Fed
from tests.chaos.pipelines.lives import INPUT, PARTITIONS, PipelineLives, Plan
from tests.chaos.pipelines.readings import closing_value, next_number

from barnabas.testing import Broker

RECORDS = 3 * CHUNK + 1


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker(memory=True) as broker:
        yield broker.bootstrap_servers


def begun(servers: str, home: Path) -> PipelineLives:
    """All strikes are done; only the input is not complete."""
    lives = PipelineLives(home, Plan(driver=0, broker=0, whole=0, records=RECORDS), seed=0)
    lives.connect(servers)
    lives.begin_feeding(servers)
    return lives


def numbers(servers: str) -> list[list[int]]:
    """By partition."""
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for message in committed(servers, INPUT, PARTITIONS):
        number = re.search(rb'"number": (\d+)', message.value() or b"")
        assert number is not None
        found[message.partition() or 0].append(int(number[1]))
    return found


def test_it_counts_what_is_written_and_uses_no_number_twice(servers: str, tmp_path: Path) -> None:
    stopped = begun(servers, tmp_path)
    stopped.feeder.stop()
    written = stopped.feeder.next_number
    assert 0 <= written < RECORDS
    # In the midst of a chunk: the highest number is far beyond what is there.
    stopped.feeder.send(Fed(b'{"number": 9000}'), 9000 % PARTITIONS)
    stopped.feeder.flush()
    lives = begun(servers, tmp_path)
    while not lives.is_fed():
        time.sleep(0.05)
    lives.feeder.stop()
    found = numbers(servers)
    assert sum(map(len, found)) >= RECORDS
    assert all(each == sorted(set(each)) for each in found)
    after = sorted(set(itertools.chain(*found)) - set(range(written)))
    assert after[:2] == [9000, 9001]


def test_nothing_is_fed_after_the_end(servers: str, tmp_path: Path) -> None:
    lives = begun(servers, tmp_path)
    while not lives.is_fed():
        time.sleep(0.05)
    lives.feeder.stop()
    lives.feeder.send(Fed(closing_value()), 0)
    lives.feeder.flush()
    assert not begun(servers, tmp_path).feeder.is_alive()
    assert next_number(committed(servers, INPUT, PARTITIONS)) == lives.feeder.next_number
