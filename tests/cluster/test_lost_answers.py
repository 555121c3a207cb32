"""Commits whose answer is lost, and controllers that die half way: done, or not, never both."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.cluster.town import Town, in_town, machine

from barnabas.cluster import commits as commits_module
from barnabas.cluster import layout
from barnabas.cluster.changes import PartitionsAdded, TopicConfigChanged, TopicCreated, TopicDeleted
from barnabas.cluster.configs import AlterOp, ConfigEdit, ConfigResource, IncrementalChange
from barnabas.cluster.errors import NotControllerError
from barnabas.cluster.mending import leftovers
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewPartitions, NewTopic
from barnabas.model.errors import ErrorCode
from barnabas.sim.zookeeper import Transaction

ALL = (0, 1, 2)
RETENTION = ConfigEdit("retention.ms", AlterOp.SET, "7")

CHANGES: dict[str, tuple[Callable[[Cluster], Awaitable[list[object]]], type]] = {
    "create": (lambda c: c.create_topics([NewTopic("new", 2, 2)]), TopicCreated),  # type: ignore[dict-item, return-value]
    "delete": (lambda c: c.delete_topics(["t"]), TopicDeleted),  # type: ignore[dict-item, return-value]
    "grow": (lambda c: c.create_partitions([NewPartitions("t", 4)]), PartitionsAdded),  # type: ignore[dict-item, return-value]
    "alter": (
        lambda c: c.incremental_alter_configs(  # type: ignore[dict-item, return-value]
            [IncrementalChange(ConfigResource(2, "t"), [RETENTION])]
        ),
        TopicConfigChanged,
    ),
}


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_done_once_whatever_became_of_the_answer(kind: str, after: bool) -> None:
    change, told = CHANGES[kind]

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        await town.settle()
        for heard in town.heard.values():
            heard.clear()
        town.ensemble.lose_next(machine(0), after=after, count=2)
        (result,) = await change(town.controller)
        assert result.code is ErrorCode.none  # type: ignore[attr-defined]
        await town.settle()
        for heard in town.heard.values():
            assert [type(each) for each in heard] == [told]
        assert leftovers(town.ensemble.below("/")) == []

    in_town(scenario)


@pytest.mark.parametrize("after", [True, False])
def test_an_election_whose_answer_is_lost_is_done_once(after: bool) -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0], [2, 1, 0])
        town.ensemble.lose_next(machine(0), after=after, count=2)
        town.kill(1)
        state = await town.led_by(2, "t")
        await town.settle()
        assert town.state("t") == state
        assert (state.leader_epoch, state.partition_epoch) == (1, 1)

    in_town(scenario)


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lost", range(1, 7))
def test_a_broker_starts_whatever_answers_are_lost(lost: int, clean: bool, after: bool) -> None:
    async def scenario(town: Town) -> None:
        for _ in range(2):
            for number in ALL:
                town.ensemble.lose_next(machine(number), after=after, count=lost)
                await town.start(number, clean=clean)
            await town.settle()
            if not town.stored().topics:
                await town.create("t", [0, 1, 2], [1, 2, 0])
            for number in ALL:
                town.kill(number)
        await town.start(*ALL)
        await town.settle()
        assert town.watchman.unclean == []

    in_town(scenario)


@pytest.mark.parametrize("after", [True, False])
def test_producer_ids_are_given_once_whatever_answers_are_lost(after: bool) -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        taken: list[range] = []
        for number in (0, 1, 2, 0, 1, 2):
            town.ensemble.lose_next(machine(number), after=after)
            while True:
                try:
                    taken.append(await town.brokers[number].allocate_producer_ids())
                    break
                except Exception:  # noqa: BLE001 - whatever it was, ask again
                    await asyncio.sleep(1)
        assert len({block.start for block in taken}) == len(taken)

    in_town(scenario)


@pytest.mark.parametrize("after", [True, False])
def test_a_leaving_broker_leaves_whatever_answers_are_lost(after: bool) -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        town.ensemble.lose_next(machine(1), after=after)
        await town.stop(1)
        assert town.state("t").leader == 2
        await town.settle()

    in_town(scenario)


LARGE = 25


@pytest.fixture
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if ZooKeeper took a hundredth of what it takes."""
    monkeypatch.setattr(commits_module, "BYTES_AT_ONCE", 2600)


def after_commits(town: Town, count: int) -> asyncio.Event:
    """Set when the controller has committed so many times from now on."""
    done = asyncio.Event()
    left = count

    def look(transaction: Transaction) -> None:
        nonlocal left
        if layout.LAST_COMMIT in transaction.changes:
            left -= 1
            if left == 0:
                done.set()

    town.ensemble.on_commit(look)
    return done


async def create_large(cluster: Cluster) -> object:
    return await cluster.create_topics([NewTopic("large", LARGE, 3), NewTopic("small", 1, 3)])


async def delete_large(cluster: Cluster) -> object:
    return await cluster.delete_topics(["large", "t"])


async def grow_large(cluster: Cluster) -> object:
    return await cluster.create_partitions([NewPartitions("t", LARGE)])


@pytest.mark.parametrize("commits", [0, 1, 2, 4, 5, 6, 7, 12])
@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("work", [create_large, delete_large, grow_large])
def test_nobody_sees_half_of_a_large_change(
    work: Callable[[Cluster], Awaitable[object]], commits: int
) -> None:
    """The controller dies after so many commits of it."""

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        if work is delete_large:
            await create_large(town.controller)
        await town.settle()
        before = {name: len(topic.partitions) for name, topic in town.stored().topics.items()}
        done = after_commits(town, commits + 1)
        changing = asyncio.ensure_future(work(town.controller))
        waiting = asyncio.create_task(done.wait())
        await asyncio.wait([changing, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not changing.done():
            town.kill(0)
            changing.cancel()
        waiting.cancel()
        await town.settle()
        sizes = {name: len(topic.partitions) for name, topic in town.stored().topics.items()}
        assert all(size in (1, before.get(name), LARGE) for name, size in sizes.items())
        for broker in town.brokers.values():
            seen = {name: len(topic.partitions) for name, topic in broker.image.topics.items()}
            assert seen == sizes
        assert leftovers(town.ensemble.below("/")) == []
        if work is not delete_large:
            retried = await create_large(town.controller)
            assert retried

    in_town(scenario)


def test_a_commit_stays_far_below_what_zookeeper_takes() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.settle()
        (made,) = await town.controller.create_topics([NewTopic("t", 4_000, 3)])
        assert made.code is ErrorCode.none
        others = [town.brokers[0], town.brokers[2]]
        await town.until(lambda: all("t" in each.image.topics for each in others))
        town.kill(1)
        for broker in others:
            states = broker.image.topics["t"].partitions
            assert len(states) == 4_000
            await town.until(
                lambda: all(1 not in s.isr for s in broker.image.topics["t"].partitions)  # noqa: B023
            )
        (gone,) = await town.controller.delete_topics(["t"])
        assert gone.code is ErrorCode.none
        await town.settle()

    in_town(scenario)


@pytest.mark.usefixtures("small_commits")
def test_the_controllers_session_ends_in_mid_change() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.settle()
        begun = after_commits(town, 2)
        making = asyncio.ensure_future(create_large(town.controller))
        await begun.wait()
        town.ensemble.expire(machine(0))
        with pytest.raises(NotControllerError):
            await making
        await town.settle()
        assert leftovers(town.ensemble.below("/")) == []
        assert all(len(each.partitions) in (1, LARGE) for each in town.stored().topics.values())

    for seed in range(4):
        in_town(scenario, seed)
