"""Batches that wait off the loop while their partition changes hands."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.replica.conftest import NOW_MS
from tests.replica.exchange import Replica, state

from barnabas.api.context import Services
from barnabas.api.produce_append import append_checked
from barnabas.model.errors import ErrorCode
from barnabas.sim.loop import SimLoop, run
from barnabas.wire.records.record import encode_batch


def services(replica: Replica) -> Services:
    clock = SimpleNamespace(wall_ms=lambda: NOW_MS)
    return cast(Services, SimpleNamespace(work=replica.work, clock=clock))


@pytest.mark.parametrize("leader", [1, 2])
def test_a_batch_that_was_verified_in_another_epoch_is_sent_again(leader: int) -> None:
    """Its guard is worth nothing any more, which is no fault of the producer's: what it would be
    told of that, it could not recover from."""

    async def scene(loop: SimLoop) -> None:
        one = Replica(loop, 1, state(1, 0, (1, 2)))
        data: Any = encode_batch(
            [(NOW_MS, b"k", b"v", [])],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        header = one.log.check(memoryview(bytearray(data)), NOW_MS)
        guard = one.partition.begin_verification(header, NOW_MS, bumps_epochs=True)
        sent = append_checked(services(one), one.partition, 0, bytes(data), header, guard)
        waiting = asyncio.ensure_future(sent)
        while not one.work.waiting:
            await asyncio.sleep(0)
        one.assume(state(leader, 1, (1, 2), 1))
        await one.work.finish()
        result: Any = await waiting
        assert ErrorCode(result.error) is ErrorCode.not_leader_or_follower
        assert one.log.end_offset == 0

    run(scene, 0)
