"""A move that is held down to a rate takes its time, in which nobody else is held up (KIP-73)."""

import pytest
from tests.broker.test_moving import gone, move, moved
from tests.broker.trio import Trio, play

from barnabas.model.errors import ErrorCode
from barnabas.sim.cluster.asking import request

ALTER_CONFIGS, BROKER = 44, 4
RATE, PIECE, PIECES = 50_000, 10_000, 40
LISTED = {"file_delete_delay_ms": "1000"}
PIECEWISE = {"replica_fetch_max_bytes": str(2 * PIECE)}


async def fill(trio: Trio) -> None:
    """Broker 1 has nothing, and there is something to copy."""
    await move(trio, 2, 3)
    await moved(trio, 2, 3)
    await gone(trio, 1)
    for number in range(PIECES):
        value = b"%d" % number * PIECE
        while not await trio.wrote(value[:PIECE]):
            pass
        trio.written.append(value[:PIECE])


async def set_rate(trio: Trio, key: str, value: str | None) -> None:
    row = {"name": key, "config_operation": 1 if value is None else 0, "value": value}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [row]}
    client = await trio.client(2)
    answer = await client.link.call(
        ALTER_CONFIGS, 1, request(ALTER_CONFIGS, {"resources": [resource]})
    )
    await client.link.close()
    assert [each.error_code for each in answer.responses] == [ErrorCode.none]


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_copy_takes_as_long_as_its_rate_makes_it(side: str) -> None:
    async def scene(trio: Trio) -> None:
        await fill(trio)
        key = f"{side}.replication.throttled.rate"
        await set_rate(trio, key, str(RATE))
        begun_s = trio.loop.time()
        await move(trio, 1, 2)
        await moved(trio, 1, 2)
        least_s = PIECE * PIECES / RATE - 2
        assert least_s < trio.loop.time() - begun_s < 3 * least_s + 5
        assert await trio.read_all() == trio.written
        # Who is in sync is not held back.
        await set_rate(trio, key, "0")
        await trio.write(3)
        await trio.until_in_sync(1, 2)

    settings = {f"{side}_replication_throttled_replicas": "0:1,0:2,0:3"}
    play(scene, topic=LISTED | settings, **PIECEWISE)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_rate_can_be_lifted_on_the_way(side: str) -> None:
    async def scene(trio: Trio) -> None:
        await fill(trio)
        key = f"{side}.replication.throttled.rate"
        await set_rate(trio, key, "0")
        await move(trio, 1, 2, 3)
        begun_s = trio.loop.time()
        await trio.until(lambda: trio.loop.time() > begun_s + 30)
        await trio.write(3)
        assert set(trio.state().isr) == {2, 3}
        assert not trio.log_bytes(1)
        await set_rate(trio, key, None)
        await moved(trio, 1, 2, 3)
        assert await trio.read_all() == trio.written

    play(scene, topic=LISTED | {f"{side}_replication_throttled_replicas": "*"}, **PIECEWISE)


def test_replicas_that_are_not_named_are_not_held_back() -> None:
    async def scene(trio: Trio) -> None:
        await fill(trio)
        for side in ("leader", "follower"):
            await set_rate(trio, f"{side}.replication.throttled.rate", "0")
        await move(trio, 1, 2)
        await moved(trio, 1, 2)

    listed = {
        f"{side}_replication_throttled_replicas": "1:1,1:2" for side in ("leader", "follower")
    }
    play(scene, topic=LISTED | listed, **PIECEWISE)
