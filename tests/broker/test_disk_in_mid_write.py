"""A disk that fails in mid-write, under one of three brokers: what was acknowledged is kept."""

import errno

import pytest
from tests.broker.trio import NUMBERS, TOPIC, Trio, play

from barnabas.sim.faults import ERRNO, FaultKind
from barnabas.wire.records.batch import parse_header
from barnabas.wire.records.record import decode_batch

LOG = f"{TOPIC}-0/00000000000000000000.log"


async def same_everywhere(trio: Trio) -> None:
    await trio.until_in_sync(*NUMBERS)
    await trio.write(3)
    await trio.until(lambda: len({trio.log_bytes(each) for each in NUMBERS}) == 1)
    # What a broken disk refused may have been copied before: then it is there twice.
    assert list(dict.fromkeys(values_in(trio.log_bytes(1)))) == trio.written


def values_in(data: bytes) -> list[bytes | None]:
    values, at = [], 0
    while at < len(data):
        header = parse_header(data, at)
        values += [each.value for each in decode_batch(data[at : at + header.size])]
        at += header.size
    return values


@pytest.mark.parametrize("number", [1, 2], ids=["leader", "follower"])
def test_a_disk_without_room_refuses_and_goes_on(number: int) -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(5)
        for _ in range(3):
            trio.disks[number].faults.fail_next("write", LOG)
            await trio.write(2)
        assert all(each.failures == [] for each in trio.running.values())
        await same_everywhere(trio)

    play(scene)


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("number", [1, 2], ids=["leader", "follower"])
def test_a_broken_disk_ends_its_broker_in_a_sentence_and_others_take_over_at_once(
    number: int, kind: FaultKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ERRNO, "write", errno.EIO)

    async def scene(trio: Trio) -> None:
        await trio.write(5)
        running, begun_s = trio.running[number], trio.loop.time()
        trio.disks[number].faults.fail_next(kind, LOG)
        while not running.failures:
            await trio.write(1)
        (reason,) = running.failures
        assert reason.startswith(
            "writing to data/events-0 failed" if kind == "write" else "syncing data/events-0 failed"
        )
        await trio.until(lambda: number not in trio.state().isr)
        await trio.write(5)
        # Not after its session: it has resigned.
        assert trio.loop.time() - begun_s < 3.0
        await trio.kill(number, power=True)
        await trio.start(number)
        await same_everywhere(trio)

    play(scene, log_flush_interval_messages="1")
