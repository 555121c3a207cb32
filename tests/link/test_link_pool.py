"""Links to the other brokers: one to each, made when needed, and again when lost."""

import asyncio
import socket
from typing import Any

import pytest
from tests.link.conftest import GARBLED, HANG_UP
from tests.link.test_aio_link import find

from barnabas.link import pool as pool_module
from barnabas.link.pool import LinkPool


def pool_of(**ports: int) -> LinkPool:
    """Brokers by their number, each at a port of this machine."""
    known = {int(name.removeprefix("b")): ("127.0.0.1", port) for name, port in ports.items()}
    return LinkPool(known.get, "tests")


def test_one_link_serves_everybody_who_asks(broker: Any) -> None:
    async def scenario() -> None:
        pool = pool_of(b1=broker.port)
        answers = await asyncio.gather(*(pool.call(1, 10, 4, find("k" * n)) for n in range(1, 20)))
        assert [each.coordinators[0].node_id for each in answers] == list(range(1, 20))
        assert len(pool._links) == 1
        await pool.close()

    asyncio.run(scenario())


def test_who_is_not_registered_can_not_be_asked() -> None:
    async def scenario() -> None:
        pool = pool_of()
        with pytest.raises(OSError, match="broker 7 is not registered"):
            await pool.call(7, 10, 4, find("k"))
        await pool.close()

    asyncio.run(scenario())


def test_who_does_not_listen_is_an_error_for_everybody_who_asks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def scenario() -> None:
        pool = pool_of(b1=port)
        asked = [pool.call(1, 10, 4, find("k")) for _ in range(3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, OSError) for each in found)
        await pool.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("key", [HANG_UP, GARBLED])
def test_a_broken_link_is_an_error_once_and_then_another_link(broker: Any, key: str) -> None:
    async def scenario() -> None:
        pool = pool_of(b1=broker.port)
        with pytest.raises(OSError, match=r".+"):
            await pool.call(1, 10, 4, find(key))
        answer = await pool.call(1, 10, 4, find("kk"))
        assert answer.coordinators[0].node_id == 2
        await pool.close()

    asyncio.run(scenario())


def test_who_does_not_answer_in_time_is_asked_over_another_link(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.link.conftest import SILENT

    monkeypatch.setattr(pool_module, "_PATIENCE_S", 0.05)

    async def scenario() -> None:
        pool = pool_of(b1=broker.port)
        with pytest.raises(OSError, match="broker 1 does not answer"):
            await pool.call(1, 10, 4, find(SILENT))
        assert not next(iter(pool._links.values())).is_open
        await pool.close()

    asyncio.run(scenario())


def test_closing_tells_those_who_wait_for_a_link_that_they_wait_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were not cancelled: to be told so would end what they do."""

    async def never(*_: object, **__: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(pool_module, "reach", never)

    async def scenario() -> None:
        pool = pool_of(b1=1)
        asking = asyncio.ensure_future(pool.call(1, 10, 4, find("k")))
        cancelled = asyncio.ensure_future(pool.call(1, 10, 4, find("k")))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(OSError, match="broker 1"):
            await asking
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(OSError, match="broker 1"):
            await pool.call(1, 10, 4, find("k"))

    asyncio.run(scenario())


def test_links_that_are_gone_are_not_kept(broker: Any) -> None:
    async def scenario() -> None:
        ports = {1: broker.port}
        hosts = iter(["127.0.0.1", "localhost"])
        pool = LinkPool(lambda number: (next(hosts), ports[number]), "tests")
        with pytest.raises(OSError, match=r".+"):
            await pool.call(1, 10, 4, find(HANG_UP))
        await pool.call(1, 10, 4, find("k"))
        assert [host for host, _ in pool._links] == ["localhost"]
        await pool.close()

    asyncio.run(scenario())
