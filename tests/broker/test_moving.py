"""Partitions are moved between whole brokers: who comes copies everything, who goes keeps nothing,
and what was acknowledged is there all the time."""

import asyncio

import pytest
from tests.broker.trio import TOPIC, Trio, play

from barnabas.model.errors import ErrorCode
from barnabas.sim.cluster.asking import request

ALTER, LIST = 45, 46


async def move(trio: Trio, *replicas: int, asked: int | None = None) -> None:
    """Whoever is asked hands it on to the controller."""
    row = {"partition_index": 0, "replicas": replicas or None}
    wanted = request(ALTER, {"topics": [{"name": TOPIC, "partitions": [row]}], "timeout": 5_000})
    client = await trio.client(asked or min(trio.running))
    answer = await client.link.call(ALTER, 1, wanted)
    await client.link.close()
    assert answer.error_code is ErrorCode.none
    (result,) = answer.responses[0].partitions
    assert result.error_code is ErrorCode.none, result.error_message


async def moved(trio: Trio, *replicas: int) -> None:
    """Until the replicas are these, all of them in sync, and their leader knows: whoever writes
    while it hears of another epoch is told to ask again."""
    await trio.until(
        lambda: (
            (trio.state().replicas, trio.state().is_moving) == (replicas, False)
            and set(trio.state().isr) == set(replicas)
            and _known_to_its_leader(trio)
        )
    )


def _known_to_its_leader(trio: Trio) -> bool:
    stored = trio.state()
    running = trio.running.get(stored.leader)
    partition = running.broker._replicas.find(TOPIC, 0) if running else None
    return partition is not None and partition.state.leader_epoch == stored.leader_epoch


async def gone(trio: Trio, number: int) -> None:
    """Until nothing of the partition is left at that broker, under whatever name."""
    await trio.until(
        lambda: not any(name.startswith(TOPIC) for name in trio.disks[number].list("data"))
    )


async def under_way(trio: Trio, number: int) -> list[tuple[int, ...]]:
    client = await trio.client(number)
    answer = await client.link.call(LIST, 0, request(LIST, {"topics": None}))
    await client.link.close()
    assert answer.error_code is ErrorCode.none
    return [part.replicas for topic in answer.topics for part in topic.partitions]


@pytest.mark.parametrize("seed", range(3))
def test_a_leader_goes_and_comes_back(seed: int) -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(5)
        before = trio.state()
        assert before.leader == 1
        await move(trio, 2, 3, asked=3)
        await moved(trio, 2, 3)
        assert trio.state().leader in (2, 3)
        assert trio.state().leader_epoch > before.leader_epoch
        await trio.until(lambda: trio.running[1].broker._replicas.find(TOPIC, 0) is None)
        await gone(trio, 1)
        await trio.write(5)
        await move(trio, 1, 2)
        await trio.until(lambda: trio.state().replicas == (1, 2))
        await moved(trio, 1, 2)
        while await under_way(trio, 2):
            await asyncio.sleep(0.01)  # (The store knows before the controller has its answer.)
        await gone(trio, 3)
        await trio.write(3)
        assert await trio.read_all() == trio.written
        await trio.until(lambda: trio.log_bytes(1) == trio.log_bytes(2) != b"")

    play(scene, seed, topic={"file_delete_delay_ms": "1000"})


def test_to_one_replica_and_back_to_three() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(3)
        for target in ((3,), (2,), (1, 2, 3), (3, 1), (2, 3, 1)):
            await move(trio, *target)
            await trio.write(2)
            await moved(trio, *target)
            await trio.write(2)
            assert await trio.read_all() == trio.written

    play(scene, topic={"file_delete_delay_ms": "1000"})


@pytest.mark.parametrize("power", [False, True])
def test_who_was_moved_away_while_it_was_down_has_nothing_left(power: bool) -> None:
    """After a power loss there may be a tail of which nobody can say what it was: that is kept."""

    async def scene(trio: Trio) -> None:
        await trio.write(5)
        await trio.kill(1, power=power)
        await trio.until_in_sync(2, 3)
        await move(trio, 2, 3)
        await moved(trio, 2, 3)
        await trio.write(5)
        await trio.start(1)
        if power:
            assert not trio.folder(1)
        else:
            await gone(trio, 1)
        await move(trio, 3, 1)
        await moved(trio, 3, 1)
        assert await trio.read_all() == trio.written

    play(scene, topic={"file_delete_delay_ms": "1000"})


@pytest.mark.parametrize("seed", range(4))
def test_changes_of_mind_lose_nothing(seed: int) -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(2)
        for number, target in enumerate(((2, 3), (1, 2, 3), (3, 1), (1, 2), (2, 3), (3, 2, 1))):
            await move(trio, *target, asked=1 + number % 3)
            await asyncio.sleep(0.004 * seed * number)
        await trio.write(3)
        await moved(trio, 3, 2, 1)
        await trio.write(1)
        assert await trio.read_all() == trio.written
        await trio.until(lambda: len({trio.log_bytes(number) for number in (1, 2, 3)}) == 1)

    play(scene, seed, topic={"file_delete_delay_ms": "1000"})


def test_a_move_goes_on_under_the_next_controller() -> None:
    async def scene(trio: Trio) -> None:
        await move(trio, 2)
        await moved(trio, 2)
        await trio.write(3)
        await trio.kill(3)
        await trio.until(lambda: 3 not in trio.running[2].broker._cluster.image.brokers)
        await trio.start(3)
        await trio.until(trio._all_know_all)
        controller = trio.running[1].broker._cluster.image.controller_id
        await move(trio, 3, 1)
        await trio.kill(controller)
        await trio.start(controller)
        await moved(trio, 3, 1)
        await trio.write(1)
        assert await trio.read_all() == trio.written

    play(scene, topic={"file_delete_delay_ms": "1000"})
