"""A log of `__consumer_offsets` that is mostly outdated is rewritten when it is loaded; whatever
moment that is interrupted at, groups are as they were."""

import asyncio
import copy
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
from tests.broker import group_scenes as scenes
from tests.broker.conftest import Life, Machine
from tests.broker.group_scenes import ONE_SHARD
from tests.chaos import group_asks, talk
from tests.chaos.broker_process import BrokerProcess

from barnabas.model.errors import ErrorCode
from barnabas.model.topics import CONSUMER_OFFSETS
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles

_GROUPS = ("offsets", "classic", "consumer")
_PARTITIONS = 10
_ROUNDS = 40
_FILLER = "x" * 4_000
_PLACE = CONSUMER_OFFSETS, 0
_FIRST_SEGMENT = "data/__consumer_offsets-0/00000000000000000000.log"


def _filled(machine: Machine) -> list[Any]:
    """Groups, with 1.6 MB of commits of which only the last 40 kB count; all that is told."""
    told: list[Any] = []

    async def scene(life: Life) -> None:
        await life.client.create(scenes.TOPIC, _PARTITIONS)
        await scenes.coordinate(life)
        await scenes.join_classic(life, "classic")
        for number in range(3):
            await scenes.join_consumer(life, "consumer", f"member-{number}")
        for number in range(_ROUNDS):
            offsets = dict.fromkeys(range(_PARTITIONS), number)
            await scenes.commit(life, "offsets", offsets, _FILLER)
        told.extend(await scenes.everything(life, *_GROUPS))

    machine.live(scene, **ONE_SHARD)
    return told


def _copy_of(files: SimFiles, seed: int) -> SimFiles:
    """Another disk with the same on it."""
    other = SimFiles(seed, chances=Chances(cold=0.3))
    other._machine.disk = copy.deepcopy(files._machine.disk)
    return other


def _log_start(life: Life) -> int:
    partition = life.broker._replicas.find(*_PLACE)
    assert partition is not None
    return partition.log.start_offset


def _look(machine: Machine, known: list[Any]) -> int:
    """Everything is as it was known to be; where the log begins."""
    starts: list[int] = []

    async def scene(life: Life) -> None:
        await scenes.coordinate(life)
        assert await scenes.everything(life, *_GROUPS) == known
        starts.append(_log_start(life))
        # It is not only told, it works on: a rewritten log takes new commits.
        await scenes.commit(life, "other", {0: 1})

    machine.live(scene, **ONE_SHARD)
    return starts[0]


def test_a_wasteful_log_is_rewritten(machine: Machine) -> None:
    known = _filled(machine)
    assert machine.files.size_of(_FIRST_SEGMENT) > 1 << 20
    start = _look(machine, known)
    assert start > 0

    async def wait_for_retention(life: Life) -> None:
        await scenes.coordinate(life)
        deadline = life.loop.time() + 20 * 60
        while machine.files.exists(_FIRST_SEGMENT):
            assert life.loop.time() < deadline
            await asyncio.sleep(10)
        assert await scenes.everything(life, *_GROUPS) == known
        assert _log_start(life) == start

    machine.live(wait_for_retention, **ONE_SHARD)
    assert _look(machine, known) == start


@pytest.mark.parametrize("ending", ["kill", "power"])
def test_an_interrupted_rewrite_changes_nothing(machine: Machine, ending: str) -> None:
    known = _filled(machine)
    filled = machine.files
    chance = random.Random(ending)
    rewritten: set[bool] = set()
    for _ in range(15):
        machine.files = _copy_of(filled, machine.lives)
        starts: list[int] = []

        async def scene(life: Life, starts: list[int] = starts) -> None:
            await asyncio.sleep(chance.uniform(0, 0.6))
            starts.append(_log_start(life))

        machine.live(scene, ending=ending, **ONE_SHARD)
        rewritten.add(starts[0] > 0)
        assert _look(machine, known) > 0
    # Some were interrupted before it was done, some after.
    assert rewritten == {True, False}


def test_power_loss_at_every_write_of_a_rewrite(machine: Machine) -> None:
    known = _filled(machine)
    filled = machine.files
    done = False
    changes = 0
    while not done:
        changes += 1
        machine.files = _copy_of(filled, machine.lives)
        starts: list[int] = []

        async def scene(life: Life, starts: list[int] = starts, changes: int = changes) -> None:
            machine.files.lose_power_after(changes)
            await asyncio.sleep(0.9)
            starts.append(_log_start(life))

        machine.live(scene, ending="power", **ONE_SHARD)
        done = starts[0] > 0
        assert _look(machine, known) > 0
    assert changes > 3


# --- real files ------------------------------------------------------------------------------


def _commit(broker: BrokerProcess, group: str, offset: int) -> None:
    rows = [
        {"partition_index": each, "committed_offset": offset, "committed_metadata": _FILLER}
        for each in range(_PARTITIONS)
    ]
    topics = [{"name": scenes.TOPIC, "partitions": rows}]
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics}
    with broker.link() as link:
        results = group_asks.commit_results(group_asks.ask(link, group_asks.OFFSET_COMMIT, body))
    assert set(results.values()) == {ErrorCode.none}


def _offsets(broker: BrokerProcess) -> set[int]:
    with broker.link() as link:
        while isinstance(found := group_asks.committed(link, "g"), ErrorCode):
            assert found in group_asks.AWAY
            time.sleep(0.01)
        assert len(found) == _PARTITIONS
        return {each.offset for each in found.values()}


def test_a_broker_killed_while_it_rewrites(tmp_path: Path) -> None:
    settings = {
        "offsets.topic.num.partitions": "1",
        "log.retention.check.interval.ms": "100",
        "log.segment.delete.delay.ms": "0",
    }
    folder = tmp_path / "data" / f"{CONSUMER_OFFSETS}-0"
    chance = random.Random(1)
    with BrokerProcess(tmp_path, settings=settings) as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, scenes.TOPIC, _PARTITIONS)
            group_asks.ask(link, group_asks.FIND_COORDINATOR, {"coordinator_keys": ["g"]})
        assert _offsets_when_there(broker) == set()
        for number in range(_ROUNDS):
            _commit(broker, "g", number)
        assert (folder / Path(_FIRST_SEGMENT).name).stat().st_size > 1 << 20
        broker.kill()
        for _ in range(2):
            before = set(_segments(folder))
            broker.spawn()
            while set(_segments(folder)) <= before and _begins_at(broker) in (None, 0):
                time.sleep(0.0002)
            time.sleep(chance.uniform(0, 0.003))
            broker.kill()
        broker.start()
        assert _offsets(broker) == {_ROUNDS - 1}
        assert (_begins_at(broker) or 0) > 0
        while Path(_FIRST_SEGMENT).name in _segments(folder):
            time.sleep(0.05)
        _commit(broker, "g", _ROUNDS)
        assert broker.terminate() == 0
        broker.start()
        assert _offsets(broker) == {_ROUNDS}


def _segments(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".log")]


def _offsets_when_there(broker: BrokerProcess) -> set[int]:
    with broker.link() as link:
        while isinstance(found := group_asks.committed(link, "g"), ErrorCode):
            time.sleep(0.01)
        return {each.offset for each in found.values()}


def _begins_at(broker: BrokerProcess) -> int | None:
    """Where the log begins, if somebody answers."""
    try:
        with broker.link() as link:
            return talk.offset_of(link, _PLACE, -2)
    except OSError:
        return None
