"""Starting: what is in the way is said in one sentence, and nothing is left half done."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.broker.conftest import Client, Life, Machine

from barnabas.broker.broker import Broker
from barnabas.broker.outside import Outside
from barnabas.config.broker_config import BrokerConfig
from barnabas.link.aio import connect
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import Coordination
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.world.embedded import EmbeddedCoordination

Store = Callable[[Callable[[str], None]], Coordination]


def broker(
    loop: SimLoop,
    files: SimFiles,
    port: int,
    data: str = "data",
    store: Store = lambda _: EmbeddedCoordination(":memory:"),
) -> Broker:
    outside = Outside(
        clock=SimClock(loop),
        entropy=SimEntropy(port),
        files=files,
        work=SimWork(loop, port),
        open_coordination=store,
    )
    config = BrokerConfig({"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": data})
    return Broker(config, outside, pytest.fail)


def test_a_directory_in_use_is_refused_in_one_sentence(tmp_path: Path) -> None:
    def store(_: object) -> Coordination:
        return EmbeddedCoordination(str(tmp_path / "metadata.sqlite"))

    async def main(loop: SimLoop) -> None:
        files = SimFiles(1)
        first = broker(loop, files, 9092, store=store)
        await first.start()
        with pytest.raises(BarnabasError, match="data is in use by another broker: stop that one"):
            await broker(loop, files, 9093).start()
        await first.stop()
        second = broker(loop, files, 9093, store=store)
        await second.start()
        await second.stop()

    run(main, 0)


def test_a_taken_port_is_refused_and_leaves_the_directory_free(tmp_path: Path) -> None:
    def store(_: object) -> Coordination:
        return EmbeddedCoordination(str(tmp_path / "metadata.sqlite"))

    async def main(loop: SimLoop) -> None:
        files = SimFiles(1)
        first = broker(loop, files, 9092, "elsewhere")
        await first.start()
        with pytest.raises(BarnabasError, match="port 9092 on"):
            await broker(loop, files, 9092, store=store).start()
        second = broker(loop, files, 9093, store=store)
        await second.start()
        await second.stop()
        await first.stop()

    run(main, 0)


def test_a_store_that_can_not_be_opened_leaves_port_and_directory_free(tmp_path: Path) -> None:
    damaged = tmp_path / "metadata.sqlite"
    damaged.write_bytes(b"no database at all" * 100)

    async def main(loop: SimLoop) -> None:
        files = SimFiles(1)
        with pytest.raises(BarnabasError, match="metadata store"):
            await broker(
                loop, files, 9092, store=lambda _: EmbeddedCoordination(str(damaged))
            ).start()
        second = broker(loop, files, 9092)
        await second.start()
        await second.stop()

    run(main, 0)


def test_a_disk_error_while_logs_are_opened_leaves_port_and_directory_free(
    machine: Machine,
) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events")

    machine.live(scene, ending="kill")
    machine.files.faults.fail_next("write", "recovery-point")
    with pytest.raises(OSError, match="No space"):
        machine.live(scene)

    async def after(life: Life) -> None:
        assert (await life.client.produce("events", b"x")).error == 0

    machine.live(after)


def test_nobody_is_answered_before_the_logs_are_open(machine: Machine) -> None:
    async def before(life: Life) -> None:
        await life.client.create("events")
        for number in range(10):
            await life.client.produce("events", b"%d" % number)

    machine.live(before, ending="kill")

    async def main(loop: SimLoop) -> None:
        second = broker(
            loop, machine.files, 9092, store=lambda _: EmbeddedCoordination(machine.store)
        )
        starting = asyncio.ensure_future(second.start())
        await asyncio.sleep(0)
        early = Client(await connect("127.0.0.1", 9092), SimClock(loop))
        assert not starting.done()
        _, values = await early.fetch("events", 0)
        assert starting.done()
        assert len(values) == 10
        await early.link.close()
        await second.stop()

    run(main, 0)
