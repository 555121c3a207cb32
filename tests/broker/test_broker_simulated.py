"""A whole broker in virtual time: produce, fetch, wait, stop, start, lose power."""

import asyncio

import pytest
from tests.broker.conftest import Life, Machine

from barnabas.model.errors import ErrorCode


def test_what_is_produced_is_fetched(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events")
        for number in range(20):
            result = await life.client.produce("events", b"%d" % number)
            assert (result.error, result.base_offset) == (0, number)
        expected = [b"%d" % number for number in range(20)]
        assert await life.client.fetch("events", 0) == (ErrorCode.none, expected)
        assert await life.client.fetch("events", 17) == (ErrorCode.none, expected[17:])

    machine.live(scene)


def test_a_waiting_fetch_is_answered_when_something_comes(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events")
        reader = await life.another_client()
        waiting = asyncio.ensure_future(reader.fetch("events", 0, wait_ms=20_000))
        await asyncio.sleep(10)
        assert not waiting.done()
        await life.client.produce("events", b"news")
        assert await waiting == (ErrorCode.none, [b"news"])
        assert life.loop.time() < 15
        assert await reader.fetch("events", 1, wait_ms=5_000) == (ErrorCode.none, [])
        assert life.loop.time() > 15

    machine.live(scene)


def test_deleting_the_topic_answers_who_waits_on_it(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events")
        reader = await life.another_client()
        waiting = asyncio.ensure_future(reader.fetch("events", 0, wait_ms=20_000))
        await asyncio.sleep(1)
        await life.client.delete("events")
        code, _ = await waiting
        assert code is ErrorCode.unknown_topic_or_partition
        assert life.loop.time() < 5
        assert life.failures == []

    machine.live(scene)


def test_batches_that_are_looked_into_keep_their_order(machine: Machine) -> None:
    """Recompression happens elsewhere, in any order; sequences would tell if appends did too."""

    async def scene(life: Life) -> None:
        await life.client.create("events", compression_type="zstd")
        results = await asyncio.gather(
            *(
                life.client.produce("events", b"%d" % number, producer=(1, 0, number))
                for number in range(30)
            )
        )
        assert [(each.error, each.base_offset) for each in results] == [(0, n) for n in range(30)]
        expected = [b"%d" % number for number in range(30)]
        assert await life.client.fetch("events", 0) == (ErrorCode.none, expected)

    machine.live(scene)


def test_plain_batches_queue_behind_those_that_are_looked_into(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events", compression_type="uncompressed")
        first = asyncio.ensure_future(life.client.produce("events", b"0", producer=(1, 0, 0)))
        others = [life.client.produce("events", b"%d" % n, producer=(1, 0, n)) for n in range(1, 9)]
        results = await asyncio.gather(first, *others)
        assert [each.base_offset for each in results] == list(range(9))

    machine.live(scene)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_a_restart_keeps_everything(machine: Machine, ending: str) -> None:
    seen: dict[str, object] = {}

    async def before(life: Life) -> None:
        await life.client.create("events", 3, retention_ms="12345678")
        await life.client.produce("events", b"a", b"b", producer=(7, 0, 0))
        metadata = await life.client.metadata("events")
        seen.update(cluster=metadata.cluster_id, id=metadata.topics[0].topic_id)

    async def after(life: Life) -> None:
        metadata = await life.client.metadata("events")
        (topic,) = metadata.topics
        assert (metadata.cluster_id, topic.topic_id) == (seen["cluster"], seen["id"])
        assert len(topic.partitions) == 3
        assert await life.client.setting("events", "retention.ms") == "12345678"
        assert await life.client.fetch("events", 0) == (ErrorCode.none, [b"a", b"b"])
        repeat = await life.client.produce("events", b"a", b"b", producer=(7, 0, 0))
        assert (repeat.error, repeat.base_offset) == (0, 0)
        more = await life.client.produce("events", b"c", producer=(7, 0, 2))
        assert more.base_offset == 2

    machine.live(before, ending=ending)
    machine.live(after)


def epochs_after(machine: Machine, *endings: str) -> list[int]:
    """The leader epoch that clients see in each life."""
    seen: list[int] = []

    async def scene(life: Life) -> None:
        if not seen:
            await life.client.create("events")
        (topic,) = (await life.client.metadata("events")).topics
        seen.append(topic.partitions[0].leader_epoch)

    for ending in endings:
        machine.live(scene, ending=ending)
    return seen


def test_leader_epochs_rise_after_an_unclean_stop_only(machine: Machine) -> None:
    assert epochs_after(machine, "stop", "stop", "kill", "stop", "power", "kill", "stop") == [
        0, 0, 0, 1, 1, 2, 3
    ]  # fmt: skip


def test_with_flush_messages_1_what_was_acknowledged_survives_power_loss(machine: Machine) -> None:
    acknowledged: list[bytes] = []

    async def before(life: Life) -> None:
        await life.client.create("events")
        for number in range(25):
            assert (await life.client.produce("events", b"%d" % number)).error == 0
            acknowledged.append(b"%d" % number)

    async def after(life: Life) -> None:
        assert await life.client.fetch("events", 0) == (ErrorCode.none, acknowledged)

    for _ in range(3):
        machine.live(before if not acknowledged else after, ending="power", **SYNCED)


SYNCED = {"log_flush_interval_messages": "1"}


def test_a_failed_sync_is_an_error_to_clients_and_ends_the_broker(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events")
        assert (await life.client.produce("events", b"kept")).error == 0
        machine.files.faults.fail_next("sync", ".log")
        lost = await life.client.produce("events", b"lost")
        assert ErrorCode(lost.error) is ErrorCode.kafka_storage_error
        again = await life.client.produce("events", b"again")
        assert ErrorCode(again.error) is ErrorCode.kafka_storage_error
        assert len(life.failures) == 1
        await asyncio.sleep(10)

    async def after(life: Life) -> None:
        assert (await life.client.fetch("events", 0))[1][:1] == [b"kept"]
        assert (await life.client.produce("events", b"new")).error == 0

    machine.live(scene, **SYNCED)
    assert not machine.files.exists("data/.kafka_cleanshutdown")
    machine.live(after, **SYNCED)
    assert machine.files.exists("data/.kafka_cleanshutdown")


def test_a_full_disk_refuses_until_there_is_room_again(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events")
        await life.client.produce("events", b"0")
        machine.files.disk_bytes_max = 0
        refused = await life.client.produce("events", b"1")
        assert ErrorCode(refused.error) is ErrorCode.kafka_storage_error
        assert await life.client.fetch("events", 0) == (ErrorCode.none, [b"0"])
        machine.files.disk_bytes_max = None
        assert (await life.client.produce("events", b"1")).base_offset == 1
        assert life.failures == []

    machine.live(scene)


def test_the_same_seed_tells_the_same_story(tmp_path_factory: pytest.TempPathFactory) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("events")
        for number in range(5):
            await life.client.produce("events", b"%d" % number)
        await life.client.fetch("events", 0)

    digests = []
    for _ in range(2):
        machine = Machine(tmp_path_factory.mktemp("metadata"))
        life = machine.live(scene)
        digests.append((life.loop.trace.digest(), machine.files.trace.digest()))
    assert digests[0] == digests[1]
