"""A damaged replica is noticed, quarantined, never served or elected, and copied anew."""

import pytest
from tests.broker.trio import NUMBERS, TOPIC, Trio, play

from barnabas.sim.files import SimFiles

FIRST_LOG = f"data/{TOPIC}-0/00000000000000000000.log"


def damage(disk: SimFiles, at: int = 100) -> None:
    """Flip some bits of the oldest batches, behind everybody's back."""
    file = disk.open(FIRST_LOG)
    found = file.pread(4, at)
    file.pwrite(bytes(each ^ 0xFF for each in found), at)
    file.close()


async def healed(trio: Trio, number: int) -> None:
    """The damaged replica is in sync again, with what the others have."""
    await trio.until(lambda: trio.kept_aside(number) != [])
    await trio.until_in_sync(*NUMBERS)
    await trio.write(3)
    await trio.until(lambda: len({trio.log_bytes(each) for each in NUMBERS}) == 1)
    assert await trio.read_all() == trio.written


async def synced(trio: Trio) -> None:
    for number in NUMBERS:
        trio.partition(number).sync()
    await trio.until(
        lambda: all(
            trio.partition(each).log.recovery_point == trio.partition(each).log.end_offset
            for each in NUMBERS
        )
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_reads_damage_hands_over(seed: int) -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(20)
        epoch = trio.state().leader_epoch
        damage(trio.disks[1])
        assert await trio.read_all() == trio.written
        assert trio.state().leader_epoch > epoch
        await healed(trio, 1)

    play(scene, seed, log_scrub_interval_ms="-1")


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_scrubbing_finds_what_nobody_reads(number: int, seed: int) -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(20)
        await synced(trio)
        damage(trio.disks[number])
        await healed(trio, number)

    play(scene, seed)


def test_a_damaged_follower_is_not_elected() -> None:
    """The leader dies as soon as the follower has noticed: only the third may take over."""

    async def scene(trio: Trio) -> None:
        await trio.write(20)
        await synced(trio)
        damage(trio.disks[2])
        await trio.until(lambda: 2 not in trio.state().isr)
        await trio.kill(1)
        await trio.until(lambda: trio.state().leader not in (1, -1))
        assert trio.state().leader == 3
        assert await trio.read_all() == trio.written
        await trio.start(1)
        await healed(trio, 2)

    play(scene)
