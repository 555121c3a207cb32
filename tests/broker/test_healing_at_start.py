"""Damage that was done while a broker was stopped: noticed, never served or elected, and healed."""

import asyncio
from collections.abc import Callable

import pytest
from tests.broker.test_healing import damage
from tests.broker.trio import NUMBERS, TOPIC, Trio, play

from barnabas.sim.files import SimFiles

FOLDER = f"data/{TOPIC}-0"
SMALL_SEGMENTS = {"segment_ms": "1000", "segment_jitter_ms": "0"}


def logs(disk: SimFiles) -> list[str]:
    return sorted(name for name in disk.list(FOLDER) if name.endswith(".log"))


def overwrite(disk: SimFiles, name: str, at: int, data: bytes) -> None:
    file = disk.open(f"{FOLDER}/{name}")
    file.pwrite(data, at)
    file.close()


def flip_oldest(disk: SimFiles) -> None:
    damage(disk)


def flip_newest(disk: SimFiles) -> None:
    overwrite(disk, logs(disk)[-1], 70, b"\xff\xff")


def break_structure_of_oldest(disk: SimFiles) -> None:
    overwrite(disk, logs(disk)[0], 8, b"\x7f\xff\xff\xff")


def break_structure_of_newest(disk: SimFiles) -> None:
    overwrite(disk, logs(disk)[-1], 8, b"\x7f\xff\xff\xff")


def cut_newest(disk: SimFiles) -> None:
    file = disk.open(f"{FOLDER}/{logs(disk)[-1]}")
    file.truncate(10)
    file.close()


def empty_newest(disk: SimFiles) -> None:
    file = disk.open(f"{FOLDER}/{logs(disk)[-1]}")
    file.truncate(0)
    file.close()


def lose_folder(disk: SimFiles) -> None:
    disk.remove_tree(FOLDER)


def lose_segment(disk: SimFiles, which: int) -> None:
    base = logs(disk)[which].removesuffix(".log")
    for name in disk.list(FOLDER):
        if name.startswith(base):
            disk.remove(f"{FOLDER}/{name}")


def lose_first(disk: SimFiles) -> None:
    lose_segment(disk, 0)


def lose_middle(disk: SimFiles) -> None:
    lose_segment(disk, len(logs(disk)) // 2)


def lose_newest(disk: SimFiles) -> None:
    lose_segment(disk, -1)


def lose_only_logs(disk: SimFiles) -> None:
    for name in logs(disk):
        disk.remove(f"{FOLDER}/{name}")


HARMS: list[Callable[[SimFiles], None]] = [
    flip_oldest,
    flip_newest,
    break_structure_of_oldest,
    break_structure_of_newest,
    cut_newest,
    empty_newest,
    lose_folder,
    lose_first,
    lose_middle,
    lose_newest,
    lose_only_logs,
]


async def filled(trio: Trio) -> None:
    """Several segments, of some batches each, and all of it on every disk."""
    for _ in range(5):
        await trio.write(4)
        await asyncio.sleep(1.5)
    await trio.until_in_sync(*NUMBERS)
    await trio.until(lambda: len({trio.log_bytes(each) for each in NUMBERS}) == 1)
    assert len(logs(trio.disks[1])) > 3


async def becomes_whole(trio: Trio, number: int, other: int = 3) -> None:
    await trio.until(lambda: trio.log_bytes(number) == trio.log_bytes(other))
    await trio.until_in_sync(*NUMBERS)
    await trio.write(3)
    await trio.until(lambda: len({trio.log_bytes(each) for each in NUMBERS}) == 1)
    assert await trio.read_all() == trio.written


@pytest.mark.parametrize(
    ("harm", "clean", "number"),
    [
        *((harm, True, 1) for harm in HARMS),
        *((harm, False, 2) for harm in (flip_oldest, lose_folder, lose_middle)),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_one_of_three_is_harmed_while_it_is_down(
    harm: Callable[[SimFiles], None], clean: bool, number: int
) -> None:
    """Broker 1 led it, and is to lead again; broker 2 followed."""

    async def scene(trio: Trio) -> None:
        await filled(trio)
        await (trio.stop(number) if clean else trio.kill(number))
        harm(trio.disks[number])
        await trio.write(2)
        await trio.start(number)
        assert await trio.read_all() == trio.written
        await becomes_whole(trio, number)

    play(scene, topic=SMALL_SEGMENTS)


@pytest.mark.parametrize("harm", HARMS, ids=lambda each: each.__name__)
def test_one_of_three_is_harmed_while_all_are_down(harm: Callable[[SimFiles], None]) -> None:
    """It led last and comes back first, while nobody else is there who could lead: nobody may
    follow it, and lose what it has lost."""
    number = 3

    async def scene(trio: Trio) -> None:
        await filled(trio)
        for each in NUMBERS:
            await trio.stop(each)
        harm(trio.disks[number])
        await trio.start(number)
        await trio.start(*(each for each in NUMBERS if each != number))
        assert await trio.read_all() == trio.written
        await becomes_whole(trio, number, 1)

    play(scene, topic=SMALL_SEGMENTS)
