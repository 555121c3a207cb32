"""Groups on a broker that loses power: what was answered holds when each write is synced, and
otherwise offsets may go back to earlier ones, but never to what nobody committed."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.broker import group_scenes as scenes
from tests.broker.conftest import Life, Machine
from tests.broker.group_scenes import ONE_SHARD
from tests.chaos import group_asks

from barnabas.model.errors import ErrorCode

_LIVES = 8
_COMMITS = 15
_PARTITIONS = 3


async def _commit_until_the_lights_go_out(
    life: Life, numbers: Iterator[int], acknowledged: dict[int, int]
) -> None:
    """Some commits one after another, then some at once of which not all are answered."""

    async def one(partition: int, number: int) -> None:
        await scenes.commit(life, "g", {partition: number})
        acknowledged[partition] = max(number, acknowledged.get(partition, 0))

    for _ in range(_COMMITS):
        number = next(numbers)
        await one(number % _PARTITIONS, number)
    # On one connection commits are taken in the order in which they are sent.
    last = [next(numbers) for _ in range(_PARTITIONS)]
    tasks = [asyncio.ensure_future(one(number % _PARTITIONS, number)) for number in last]
    await asyncio.wait(tasks, timeout=0.02)
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_with_flush_messages_1_acknowledged_commits_survive_power_loss(machine: Machine) -> None:
    numbers = iter(range(1, 10_000))
    acknowledged: dict[int, int] = {}

    async def scene(life: Life) -> None:
        await scenes.coordinate(life)
        found = await scenes.committed(life, "g")
        assert isinstance(found, dict)
        for partition, number in acknowledged.items():
            offset, metadata = found[partition]
            assert offset >= number
            assert metadata == f"{offset} "
        if not acknowledged:
            await life.client.create(scenes.TOPIC, _PARTITIONS)
            await scenes.sync_each_commit(life)
        await _commit_until_the_lights_go_out(life, numbers, acknowledged)

    for _ in range(_LIVES):
        machine.live(scene, ending="power", **ONE_SHARD)
    assert sorted(acknowledged) == list(range(_PARTITIONS))


def test_with_flush_messages_1_generations_and_epochs_survive_power_loss(machine: Machine) -> None:
    generations: list[int] = []
    epochs: list[int] = []
    known: dict[str, Any] = {}

    async def scene(life: Life) -> None:
        await scenes.coordinate(life)
        if not generations:
            await life.client.create(scenes.TOPIC)
            await scenes.sync_each_commit(life)
        else:
            again = await scenes.ask(life, group_asks.SYNC_GROUP, known)
            assert again.error_code is ErrorCode.none
            assert again.assignment == known["assignments"][0]["assignment"]
            left = {"group_id": "classic", "members": [{"member_id": known["member_id"]}]}
            await scenes.ask(life, group_asks.LEAVE_GROUP, left)
        known.update(await scenes.join_classic(life, "classic"))
        generations.append(known["generation_id"])
        epochs.append(await scenes.join_consumer(life, "consumer", f"member-{len(epochs)}"))

    for _ in range(_LIVES):
        machine.live(scene, ending="power", **ONE_SHARD)
    assert generations == sorted(set(generations))
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("ending", ["kill", "power"])
def test_without_it_offsets_are_such_as_were_committed(machine: Machine, ending: str) -> None:
    """A killed process loses nothing; power loss may take what was in the page cache only."""
    numbers = iter(range(1, 10_000))
    acknowledged: dict[int, int] = {}
    backwards: list[int] = []

    async def scene(life: Life) -> None:
        await scenes.coordinate(life)
        if not acknowledged:
            await life.client.create(scenes.TOPIC, _PARTITIONS)
        found = await scenes.committed(life, "g")
        assert isinstance(found, dict)
        highest = next(numbers)
        for partition, (offset, metadata) in found.items():
            assert offset < highest
            assert offset % _PARTITIONS == partition
            assert metadata == f"{offset} "
        backwards.append(
            sum(found.get(each, (0, ""))[0] < number for each, number in acknowledged.items())
        )
        acknowledged.clear()
        await _commit_until_the_lights_go_out(life, numbers, acknowledged)

    async def create(life: Life) -> None:
        await life.client.create(scenes.TOPIC, _PARTITIONS)

    acknowledged[0] = 0
    machine.live(create)
    for _ in range(_LIVES):
        machine.live(scene, ending=ending, **ONE_SHARD)
    assert any(backwards) is (ending == "power")
