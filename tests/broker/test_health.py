"""How brokers say they are, in good times and in bad ones."""

import asyncio
import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from tests.broker.trio import NUMBERS, SESSION_S, TOPIC, Trio, machine, play

from barnabas.broker.health import Facts, Partitions, Phase, judge
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.errors import KafkaError
from barnabas.node.local_cluster import LocalCluster
from barnabas.sim.network import on_machine

PORT = 9644
GOOD = Facts(1, Phase.SERVING, None, registered=True, controller=2, log_dir="data")


def facts(**changed: Any) -> Facts:
    values = {name: getattr(GOOD, name) for name in GOOD.__slots__}
    return Facts(**(values | changed))


@pytest.mark.parametrize(
    ("given", "live", "ready", "status", "words"),
    [
        (GOOD, True, True, "ok", ""),
        (facts(phase=Phase.STARTING), True, False, "not ready", "is starting"),
        (facts(phase=Phase.STOPPING), True, False, "not ready", "is stopping"),
        (facts(registered=False), True, False, "not ready", "not registered"),
        (facts(controller=-1), True, False, "not ready", "controller"),
        (facts(complaint="a node is broken."), True, False, "not ready", "a node is broken."),
        (facts(failure="the disk is gone"), False, False, "failed", "the disk is gone."),
        (facts(partitions=Partitions(under_min_isr=3)), True, True, "degraded", "in sync: 3."),
        (facts(partitions=Partitions(offline=2)), True, True, "degraded", "here: 2."),
    ],
)
def test_what_facts_mean(given: Facts, live: bool, ready: bool, status: str, words: str) -> None:
    verdict = judge(given)
    assert (verdict.live, verdict.ready, verdict.status) == (live, ready, status)
    assert words in " ".join(verdict.reasons)
    assert bool(verdict.reasons) == (status != "ok")


class _Page(asyncio.Protocol):
    def __init__(self) -> None:
        self.read = bytearray()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.read += data

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def get(number: int, path: str) -> tuple[int, Any]:
    """What a broker says at a path."""

    async def ask() -> bytes:
        loop = asyncio.get_running_loop()
        transport, page = await loop.create_connection(_Page, machine(number), PORT)
        transport.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await page.done
        return bytes(page.read)

    with on_machine("client"):
        answer = await asyncio.get_running_loop().create_task(ask())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(body)


async def codes(number: int) -> tuple[int, ...]:
    return tuple([(await get(number, path))[0] for path in ("/health/live", "/health/ready")])


def listening(**more: str) -> dict[str, Any]:
    """Each broker on its own machine."""
    return {"health_listener": f"0.0.0.0:{PORT}", **more}


def test_brokers_of_a_cluster_tell_how_they_are() -> None:
    async def scene(trio: Trio) -> None:
        for number in NUMBERS:
            assert await codes(number) == (200, 200)
            status, page = await get(number, "/health")
            assert status == HTTPStatus.OK
            assert (page["status"], page["reasons"], page["registered"]) == ("ok", [], True)
            assert page["controller"] in NUMBERS
            assert page["log_dirs"] == [{"path": "data", "usable": True}]
            assert page["partitions"]["led"] == (number == 1)
        assert (await get(1, "/nothing"))[0] == HTTPStatus.NOT_FOUND
        # Two are gone: nothing can be committed in what is left.
        for number in (2, 3):
            await trio.kill(number)
        await trio.until(lambda: trio.state().isr == (1,))
        await asyncio.sleep(2)
        assert await codes(1) == (200, 200)
        status, page = await get(1, "/health")
        assert (status, page["status"]) == (HTTPStatus.OK, "degraded")
        assert page["partitions"]["under_min_isr"] == 1
        assert page["partitions"]["named"] == [f"{TOPIC}-0"]
        assert page["reasons"] == ["Partitions led here with too few replicas in sync: 1."]

    play(scene, **listening())


def test_a_broker_that_is_out_of_touch_lives_and_is_not_ready() -> None:
    async def scene(trio: Trio) -> None:
        trio.ensemble.cut(machine(2))
        await asyncio.sleep(SESSION_S)
        assert await codes(2) == (200, 503)
        status, page = await get(2, "/health")
        assert (status, page["status"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "not ready")
        assert "not registered" in page["reasons"][0]
        assert await codes(1) == (200, 200)
        trio.ensemble.heal(machine(2))
        while await codes(2) != (200, 200):
            await asyncio.sleep(0.1)
        await trio.until_in_sync(*NUMBERS)

    play(scene, **listening())


def test_a_broker_that_starts_or_stops_lives_and_is_not_ready() -> None:
    async def scene(trio: Trio) -> None:
        stopping = trio.running.pop(2)
        with stopping.process.inside():
            stop = asyncio.get_running_loop().create_task(stopping.broker.stop())
        await asyncio.sleep(0)
        assert await codes(2) == (200, 503)
        await stop
        with pytest.raises(ConnectionError):
            await get(2, "/health/live")
        coming = trio.prepared(2)
        trio.ensemble.cut(machine(2))
        with coming.process.inside():
            start = asyncio.get_running_loop().create_task(coming.broker.start())
        await asyncio.sleep(1)
        assert await codes(2) == (200, 503)
        page = (await get(2, "/health"))[1]
        assert (page["phase"], page["registered"], page["controller"]) == ("starting", False, None)
        trio.ensemble.heal(machine(2))
        await start
        trio.running[2] = coming
        assert await codes(2) == (200, 200)

    play(scene, **listening())


def test_a_broker_whose_disk_has_failed_is_to_be_started_anew() -> None:
    async def scene(trio: Trio) -> None:
        trio.running[3].broker._disk_failed("writing failed")
        assert await codes(3) == (503, 503)
        page = (await get(3, "/health"))[1]
        assert (page["status"], page["live"]) == ("failed", False)
        assert page["log_dirs"] == [{"path": "data", "usable": False}]
        assert page["reasons"][0] == "This broker has failed: writing failed."

    play(scene, **listening())


@pytest.mark.parametrize("text", ["", "9644", "host", "host:", ":9644", "host:99999", "http://h:1"])
def test_an_address_that_is_none(text: str) -> None:
    with pytest.raises(KafkaError, match="expected host:port"):
        BrokerConfig({"health.listener": text})


def test_addresses() -> None:
    assert BrokerConfig().health_listener is None
    assert BrokerConfig({"health.listener": "0.0.0.0:80"}).health_listener == ("0.0.0.0", 80)
    assert BrokerConfig({"health.listener": "[::1]:80"}).health_listener == ("::1", 80)


def test_brokers_on_one_machine_take_one_port_each(tmp_path: Path) -> None:
    def settings_of(listener: str) -> list[dict[str, str]]:
        cluster = LocalCluster(
            tmp_path,
            range(20_001, 20_004),
            settings={"health.listener": listener},
            racks=("north", "south"),
            hear=lambda _number, _line: None,
        )
        return [json.loads(each._orders)["settings"] for each in cluster.brokers.values()]

    told = settings_of("127.0.0.1:9644")
    assert [each["health.listener"] for each in told] == [
        "127.0.0.1:9644",
        "127.0.0.1:9645",
        "127.0.0.1:9646",
    ]
    assert [each["broker.rack"] for each in told] == ["north", "south", "north"]
    assert {each["health.listener"] for each in settings_of("[::1]:0")} == {"[::1]:0"}
