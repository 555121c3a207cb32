"""Partitions of which not even a folder is left when a broker starts."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from itertools import permutations

import pytest
from tests.broker.trio import NUMBERS, SESSION_S, TOPIC, Trio, play

from barnabas.broker.healing import Healing
from barnabas.cluster.image import NO_LEADER, PartitionState, Topic
from barnabas.cluster.quarantine import Loss
from barnabas.config.topic_config import TopicConfig
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop, run

STATE = PartitionState(1, 0, (1, 2), (1, 2))
FOLDER = f"data/{TOPIC}-0"
LOOSE = {"min_insync_replicas": "1"}


class Store:
    """The cluster and the replicas of broker 2, which has nothing of any partition."""

    node_id = 2
    has_new_directory = True

    def __init__(self, *gone: str) -> None:
        self._gone = gone
        self.left: list[str] = []

    def on_unopened(self, _told: object) -> None:
        """Nothing is opened here."""

    async def lost(self, topics: Iterable[Topic]) -> list[tuple[Topic, int]]:
        return [(topic, 0) for topic in topics]

    async def quarantine(self, topic: Topic, _number: int, loss: Loss) -> PartitionState:
        assert loss is Loss.EVERYTHING
        if topic.name in self._gone:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        self.left.append(topic.name)
        return STATE


def test_a_topic_that_is_deleted_as_the_broker_starts_keeps_it_from_nothing() -> None:
    async def main(_loop: SimLoop) -> None:
        store = Store("deleted")
        healing = Healing(store, store, None)  # type: ignore[arg-type]
        topics = [
            Topic(name, uuid.UUID(int=number), (STATE,), {}, TopicConfig())
            for number, name in enumerate(["deleted", "kept"])
        ]
        await healing.leave_lost(topics)
        assert store.left == ["kept"]

    run(main, 0)


@pytest.mark.parametrize("topic", [{}, LOOSE], ids=["2 in sync", "1 in sync"])
@pytest.mark.parametrize("order", list(permutations(NUMBERS)), ids=str)
def test_a_topic_whose_brokers_die_before_they_have_made_its_folders_begins(
    order: tuple[int, ...], topic: dict[str, str]
) -> None:
    async def scene(trio: Trio) -> None:
        for number in NUMBERS:
            await trio.kill(number)
            trio.disks[number].remove_tree(FOLDER)
        await asyncio.sleep(2 * SESSION_S)
        for number in order:
            await trio.start(number)
        await trio.until_in_sync(*NUMBERS)
        await trio.write(3)
        assert await trio.read_all() == trio.written

    play(scene, topic=topic)


# --- where nobody else has everything -----------------------------------------------------------


def another_disk(trio: Trio) -> None:
    trio.disks[1] = SimFiles("another disk")


def no_folder(trio: Trio) -> None:
    trio.disks[1].remove_tree(FOLDER)


async def alone(trio: Trio) -> None:
    """Broker 1 goes on alone for some records, and then stops; the others come back without it."""
    await trio.write(20)
    await trio.until(lambda: len({trio.log_bytes(each) for each in NUMBERS}) == 1)
    await trio.stop(3)
    await trio.stop(2)
    await trio.until_in_sync(1)
    await trio.write(1)
    await trio.stop(1)
    await trio.start(2, 3)


async def elect_uncleanly(trio: Trio) -> None:
    clusters = [each.broker._cluster for each in trio.running.values()]
    controller = next(each for each in clusters if each.is_controller)
    await controller.elect_leaders([(TOPIC, 0)], unclean=True)


async def has_no_leader(trio: Trio) -> None:
    await asyncio.sleep(60)
    state = trio.state()
    assert (state.leader, state.isr, state.emptied) == (NO_LEADER, (1,), (1,))


@pytest.mark.parametrize("lose", [another_disk, no_folder])
def test_an_empty_disk_does_not_make_others_throw_theirs_away(
    lose: Callable[[Trio], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(trio: Trio) -> None:
        await alone(trio)
        lose(trio)
        kept = trio.log_bytes(2)
        await trio.start(1)
        await has_no_leader(trio)
        assert f"{TOPIC}-0 is gone" in caplog.text
        assert "elect one of the others (2, 3)" in caplog.text
        # Also not after a restart: by then there is a folder, and an empty log in it.
        await trio.stop(1)
        await trio.start(1)
        await has_no_leader(trio)
        assert trio.log_bytes(2) == trio.log_bytes(3) == kept
        await elect_uncleanly(trio)
        await trio.until_in_sync(*NUMBERS)
        assert trio.state().leader != 1
        trio.written.pop()
        assert await trio.read_all() == trio.written
        await trio.write(1)
        await trio.until(lambda: len({trio.log_bytes(each) for each in NUMBERS}) == 1)
        assert trio.log_bytes(1).startswith(kept)

    play(scene, topic=LOOSE)


def test_a_disk_that_is_there_again_leads() -> None:
    """It was not mounted, and the broker began with an empty folder below it."""

    async def scene(trio: Trio) -> None:
        await alone(trio)
        disk = trio.disks[1]
        another_disk(trio)
        await trio.start(1)
        await has_no_leader(trio)
        await trio.stop(1)
        trio.disks[1] = disk
        await trio.start(1)
        await trio.until_in_sync(*NUMBERS)
        assert await trio.read_all() == trio.written

    play(scene, topic=LOOSE)


def test_one_that_has_nothing_leads_where_somebody_insists() -> None:
    async def scene(trio: Trio) -> None:
        await alone(trio)
        another_disk(trio)
        await trio.start(1)
        await has_no_leader(trio)
        await trio.stop(2)
        await trio.stop(3)
        await elect_uncleanly(trio)
        await trio.until_in_sync(1)
        trio.written.clear()
        await trio.write(3)
        assert await trio.read_all() == trio.written

    play(scene, topic=LOOSE)


def test_where_it_is_allowed_whoever_has_data_is_elected_as_soon_as_it_is_there() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(20)
        await trio.until(lambda: len({trio.log_bytes(each) for each in NUMBERS}) == 1)
        for number in (3, 2, 1):
            await trio.kill(number)
        another_disk(trio)
        await asyncio.sleep(2 * SESSION_S)
        await trio.start(1)
        await asyncio.sleep(60)
        assert trio.state().leader == NO_LEADER
        await trio.start(2)
        await trio.until(lambda: trio.state().leader != NO_LEADER)
        assert trio.state().leader == 2
        await trio.start(3)
        await trio.until_in_sync(*NUMBERS)
        assert await trio.read_all() == trio.written

    play(scene, topic=LOOSE | {"unclean_leader_election_enable": "true"})
