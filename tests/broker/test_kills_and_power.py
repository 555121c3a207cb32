"""What three replicas bear together: any number of kills, and one machine without its power."""

import asyncio

import pytest
from tests.broker.trio import NUMBERS, Trio, play

from barnabas.broker.following import Following
from barnabas.model.stops import Stop
from barnabas.sim.files import SimFiles

SEEDS = range(8)


async def only_two_left(trio: Trio) -> None:
    """The least that acknowledges."""
    await trio.kill(3)
    await trio.until_in_sync(1, 2)
    await trio.write(10)


async def kill_and_cut_power(trio: Trio) -> None:
    """One was killed, and the one that is left loses its power: the killed one has everything."""
    await only_two_left(trio)
    await trio.kill(2)
    await trio.until(lambda: trio.state().isr == (1,))
    await trio.kill(1, power=True)
    await trio.start(2, 1, 3)
    await trio.until_in_sync(*NUMBERS)
    assert await trio.read_all() == trio.written


async def cut_power_and_kill(trio: Trio) -> None:
    """The other way round, and everybody comes back at once."""
    await only_two_left(trio)
    await trio.kill(1, power=True)
    await trio.kill(2)
    await trio.start(2, 1, 3)
    await trio.until_in_sync(*NUMBERS)
    assert await trio.read_all() == trio.written


@pytest.mark.parametrize("scene", [kill_and_cut_power, cut_power_and_kill])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_kill_and_one_power_loss_lose_nothing(scene: object, seed: int) -> None:
    play(scene, seed)  # type: ignore[arg-type]


def test_without_knowing_a_kill_from_a_power_loss_records_were_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test above can fail."""
    monkeypatch.setattr(SimFiles, "boot", lambda _self, _path: "")
    lost = 0
    for seed in SEEDS:
        try:
            play(kill_and_cut_power, seed)
        except AssertionError:
            lost += 1
    assert lost > 0


def last_stop(trio: Trio) -> Stop:
    return trio.running[2].broker._store.last_stop


async def kill_while_logs_are_opened(trio: Trio) -> None:
    """After a power loss: what it has left is still to be found."""
    await trio.write(10)
    await trio.kill(2, power=True)
    for _ in range(2):
        running = trio.running[2] = trio.prepared(2)
        opening = asyncio.Event()

        async def open_logs(_topics: object, opening: asyncio.Event = opening) -> None:
            opening.set()
            await asyncio.Event().wait()

        with running.process.inside(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(Following, "start", lambda _self, topics: open_logs(topics))
            _starting = asyncio.get_running_loop().create_task(running.broker.start())
            await opening.wait()
        assert last_stop(trio) is Stop.LOSSY
        await trio.kill(2)
    await trio.start(2)
    assert last_stop(trio) is Stop.LOSSY
    await trio.until_in_sync(*NUMBERS)
    await trio.kill(2)
    await trio.start(2)
    assert last_stop(trio) is Stop.KILLED
    await trio.until_in_sync(*NUMBERS)
    assert await trio.read_all() == trio.written


def test_who_is_killed_while_it_recovers_goes_on_with_that() -> None:
    """Or it would take what power loss has left for damage that no kill explains."""
    play(kill_while_logs_are_opened, 0)
