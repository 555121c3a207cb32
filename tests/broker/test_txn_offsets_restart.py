"""Offsets within transactions that outlive their broker: pending ones stay pending, and count, or
are forgotten, when the transaction ends in a later life."""

import asyncio
from typing import Any, Final, NamedTuple

import pytest
from tests.broker import group_scenes as scenes
from tests.broker.conftest import Life, Machine
from tests.broker.group_scenes import ONE_SHARD, TOPIC
from tests.chaos import group_asks, talk
from tests.compat.raw import from_plain

from barnabas.model.errors import ErrorCode
from barnabas.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.wire.messages import newest_type

_PARTITIONS: Final = 3
_END_TXN: Final = 26
_TXN_OFFSET_COMMIT: Final = 28
_NEWEST: Final = {talk.INIT_PRODUCER_ID: 5, _END_TXN: 5, _TXN_OFFSET_COMMIT: 5}
_SETTINGS: Final = {**ONE_SHARD, "transaction_state_log_num_partitions": "1"}
_PATIENCE: Final = 1000
_ROUNDS: Final = 30
_NOTES: Final = 20_000
"""More bytes than what counts of so many rounds."""
ENDINGS: Final = ("stop", "kill", "power")


class Producer(NamedTuple):
    """A transactional producer, by the name of its transactional id."""

    name: str
    producer_id: int
    epoch: int

    @property
    def body(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


async def _ask(life: Life, key: int, body: dict[str, Any]) -> Any:
    request = from_plain(newest_type(key, "request"), body)
    return await life.client.link.call(key, _NEWEST[key], request)


async def _ready(life: Life, *, first: bool) -> None:
    """Both coordinators are there; whatever they write is synced before it is answered."""
    finding = {"key_type": 1, "coordinator_keys": ["any"]}
    await scenes.ask(life, group_asks.FIND_COORDINATOR, finding)
    await scenes.coordinate(life)
    if not first:
        return
    await life.client.create(TOPIC, _PARTITIONS)
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        change = {"name": "flush.messages", "config_operation": 0, "value": "1"}
        resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
        body = {"resources": [resource]}
        (told,) = (await scenes.ask(life, talk.INCREMENTAL_ALTER_CONFIGS, body)).responses
        assert told.error_code is ErrorCode.none


async def _init(life: Life, name: str) -> Producer:
    body = {
        "transactional_id": name,
        "transaction_timeout": 15 * 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    for _ in range(_PATIENCE):
        told = await _ask(life, talk.INIT_PRODUCER_ID, body)
        if told.error_code is ErrorCode.none:
            return Producer(name, told.producer_id, told.producer_epoch)
        await asyncio.sleep(0.01)
    raise AssertionError("the producer can not begin")


async def _commit(life: Life, producer: Producer, group: str, offsets: dict[int, int]) -> None:
    rows = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
        for index, offset in offsets.items()
    ]
    topics = [{"name": TOPIC, "partitions": rows}]
    body = {**producer.body, "group_id": group, "generation_id": -1, "topics": topics}
    (topic,) = (await _ask(life, _TXN_OFFSET_COMMIT, body)).topics
    assert {each.error_code for each in topic.partitions} == {ErrorCode.none}


async def _end(life: Life, producer: Producer, *, committed: bool) -> Producer:
    """The producer, as it is in its next transaction."""
    for _ in range(_PATIENCE):
        told = await _ask(life, _END_TXN, {**producer.body, "committed": committed})
        if told.error_code is ErrorCode.none:
            return producer._replace(epoch=told.producer_epoch)
        await asyncio.sleep(0.01)
    raise AssertionError("the transaction can not be ended")


async def _seen(life: Life, group: str, *, stable: bool) -> dict[int, int | ErrorCode]:
    """What is told of every partition: its offset, or why there is none."""
    topics = [{"name": TOPIC, "partition_indexes": list(range(_PARTITIONS))}]
    row = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
    body = {"groups": [row], "require_stable": stable}
    (told,) = (await scenes.ask(life, group_asks.OFFSET_FETCH, body)).groups
    assert told.error_code is ErrorCode.none
    (topic,) = told.topics
    return {
        int(each.partition_index): int(each.committed_offset)
        if each.error_code is ErrorCode.none
        else each.error_code
        for each in topic.partitions
    }


async def _settled(life: Life, group: str) -> dict[int, int | ErrorCode]:
    """What is told once no transaction is left to change it."""
    for _ in range(_PATIENCE):
        seen = await _seen(life, group, stable=True)
        if ErrorCode.unstable_offset_commit not in seen.values():
            return seen
        await asyncio.sleep(0.01)
    raise AssertionError("it never becomes stable")


UNSTABLE: Final = ErrorCode.unstable_offset_commit


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_transaction_goes_on_in_the_next_life(
    machine: Machine, ending: str, committed: bool
) -> None:
    producers: list[Producer] = []

    async def begins(life: Life) -> None:
        await _ready(life, first=True)
        await scenes.commit(life, "g", {0: 3, 1: 3})
        producers.append(await _init(life, "x"))
        await _commit(life, producers[0], "g", {0: 10, 2: 12})
        await _commit(life, producers[0], "g", {1: 11})
        await scenes.commit(life, "g", {1: 5})

    async def ends(life: Life) -> None:
        await _ready(life, first=False)
        assert await _seen(life, "g", stable=False) == {0: 3, 1: 5, 2: -1}
        assert await _seen(life, "g", stable=True) == {0: UNSTABLE, 1: UNSTABLE, 2: UNSTABLE}
        await _commit(life, producers[0], "h", {0: 20})
        await _end(life, producers[0], committed=committed)
        await _settled(life, "g")
        await _settled(life, "h")

    async def looks(life: Life) -> None:
        await _ready(life, first=False)
        expected = {0: 10, 1: 5, 2: 12} if committed else {0: 3, 1: 5, 2: -1}
        assert await _settled(life, "g") == expected
        assert (await _settled(life, "h"))[0] == (20 if committed else -1)

    machine.live(begins, ending=ending, **_SETTINGS)
    machine.live(ends, ending=ending, **_SETTINGS)
    machine.live(looks, ending=ending, **_SETTINGS)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_decided_transaction_is_ended_by_the_next_life(machine: Machine, ending: str) -> None:
    """The broker dies as soon as it has answered EndTxn, however many markers are written then."""
    expected: dict[int, int] = {}

    async def scene(life: Life) -> None:
        await _ready(life, first=not expected)
        if expected:
            assert await _settled(life, "g") == expected
        number = machine.lives
        producer = await _init(life, "x")
        committed = number % 3 != 0
        offsets = {number % _PARTITIONS: number * 10, (number + 1) % _PARTITIONS: number * 10 + 1}
        await _commit(life, producer, "g", offsets)
        await _end(life, producer, committed=committed)
        expected.update({index: expected.get(index, -1) for index in range(_PARTITIONS)})
        if committed:
            expected.update(offsets)

    for _ in range(6):
        machine.live(scene, ending=ending, **_SETTINGS)
    assert max(expected.values()) > 0


def test_an_abandoned_transaction_is_aborted_for_its_successor(machine: Machine) -> None:
    async def abandons(life: Life) -> None:
        await _ready(life, first=True)
        await _commit(life, await _init(life, "x"), "g", {0: 10})

    async def succeeds(life: Life) -> None:
        await _ready(life, first=False)
        producer = await _init(life, "x")
        assert await _settled(life, "g") == {0: -1, 1: -1, 2: -1}
        await _commit(life, producer, "g", {0: 11})
        await _end(life, producer, committed=True)
        assert (await _settled(life, "g"))[0] == 11

    machine.live(abandons, ending="kill", **_SETTINGS)
    machine.live(succeeds, **_SETTINGS)


def test_a_compacted_log_tells_the_same(machine: Machine) -> None:
    """What is committed, aborted and pending, after the cleaner has been through it."""
    settings = {**_SETTINGS, "log_cleaner_backoff_ms": "1000"}
    told: list[Any] = []
    producers: list[Producer] = []

    async def fills(life: Life) -> None:
        await _ready(life, first=True)
        committing, aborting = await _init(life, "c"), await _init(life, "a")
        for number in range(1, _ROUNDS):
            await _commit(life, committing, "g", {0: number, 1: number})
            await _commit(life, aborting, "g", {1: -number - 1, 2: 7})
            committing = await _end(life, committing, committed=True)
            aborting = await _end(life, aborting, committed=False)
            await scenes.commit(life, "h", {0: number}, "x" * 4000)
        assert _stored(life) > 5 * _NOTES
        _roll(life)
        await _commit(life, committing, "g", {0: 100})
        await scenes.commit(life, "g", {0: 50})
        await _settled(life, "h")
        producers.append(committing)
        told.append(await _everything(life))

    async def cleans(life: Life) -> None:
        await _ready(life, first=False)
        assert await _everything(life) == told[0]
        for _ in range(_PATIENCE):
            if _stored(life) < _NOTES:
                break
            await asyncio.sleep(1)
        assert _stored(life) < _NOTES
        assert await _everything(life) == told[0]

    async def ends(life: Life) -> None:
        await _ready(life, first=False)
        assert await _everything(life) == told[0]
        await _end(life, producers[0], committed=True)
        assert await _settled(life, "g") == {0: 50, 1: _ROUNDS - 1, 2: -1}

    machine.live(fills, **settings)
    machine.live(cleans, ending="kill", **settings)
    machine.live(ends, **settings)


async def _everything(life: Life) -> list[Any]:
    return [await _seen(life, group, stable=stable) for group in "gh" for stable in (False, True)]


def _roll(life: Life) -> None:
    """Only what lies in closed segments is compacted."""
    partition = life.broker._replicas.find(CONSUMER_OFFSETS, 0)
    assert partition is not None
    partition.log.roll(life.clock.wall_ms())


def _stored(life: Life) -> int:
    partition = life.broker._replicas.find(CONSUMER_OFFSETS, 0)
    assert partition is not None
    return partition.log.size
