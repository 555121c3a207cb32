"""A connection that breaks, or a session that ends, at the one moment where it hurts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest
from tests.cluster.town import Town, in_town, machine

from barnabas.cluster import announcements, following, layout
from barnabas.cluster.announcements import Announcement
from barnabas.cluster.changes import Decision
from barnabas.cluster.controller import decide_balance
from barnabas.cluster.image import Image
from barnabas.cluster.service import Cluster
from barnabas.ports.coordination import Coordination, Create, Delete, Node, Op, SessionEvent

ALL = (0, 1, 2)


def store_of(cluster: Cluster) -> Coordination:
    """What that broker asks; a test may put something in between."""
    return cluster._coordination


def break_before_reading(town: Town, number: int, holds: Callable[[str], bool]) -> list[str]:
    """The connection of a broker breaks once, as it reads such a node; which node it was."""
    store = store_of(town.brokers[number])
    read: Callable[[str], Awaitable[Node | None]] = store.get
    broken: list[str] = []

    async def get(path: str) -> Node | None:
        if holds(path) and not broken:
            broken.append(path)
            town.ensemble.break_connection(machine(number))
        return await read(path)

    store.get = get  # type: ignore[method-assign]
    return broken


def test_leaders_are_elected_though_the_connection_breaks_after_the_death_was_noticed() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("dead", [1, 0, 2])
        await town.create("other", [2, 0, 1])
        await town.settle()
        # Both are told at once: that broker 1 is gone, and that an ISR has changed.
        town.ensemble.pause(machine(0))
        town.ensemble.kill(machine(1))
        town.ensemble.expire(machine(1))
        town.brokers.pop(1).abandon()
        other = town.brokers[2].image.topics["other"]
        await town.brokers[2].alter_isr(other, 0, other.partitions[0], (2, 1))
        broken = break_before_reading(
            town, 0, lambda path: path.endswith("other/partitions/0/state")
        )
        town.ensemble.resume(machine(0))
        await town.led_by(0, "dead")
        assert broken
        await town.settle()

    in_town(scenario)


def test_leaders_go_back_though_an_attempt_at_it_was_cut_off() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        await town.stop(1)
        await town.led_by(2, "t")
        await town.start(1)
        await town.settle()
        leader = town.brokers[2]
        topic = leader.image.topics["t"]
        state = await leader.alter_isr(topic, 0, topic.partitions[0], (1, 2, 0))
        await town.until(lambda: town.brokers[0].image.topics["t"].partitions[0] == state)
        # The controller hears late of the next change: what it is about to decide comes too late.
        town.ensemble.faults.watch_delay_s = 1000.0
        await leader.alter_isr(topic, 0, state, (1, 2))
        broken = break_before_reading(town, 0, lambda path: path.endswith("t/partitions/0/state"))
        await town.until(lambda: bool(broken))
        town.ensemble.faults.watch_delay_s = 0.0
        await town.led_by(1, "t", within_s=120)

    in_town(scenario, leader_imbalance_check_interval_seconds="20")


def test_a_defect_in_balancing_leaders_is_told_and_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[str] = []

    def balance(image: Image, epoch: int) -> Decision[None]:
        if not failed:
            failed.append("once")
            raise KeyError("a defect")
        return decide_balance(image, epoch)

    monkeypatch.setattr(following, "decide_balance", balance)

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        await town.stop(1)
        await town.led_by(2, "t")
        await town.start(1)
        await town.settle()
        leader = town.brokers[2]
        topic = leader.image.topics["t"]
        await leader.alter_isr(topic, 0, topic.partitions[0], (1, 2, 0))
        await town.led_by(1, "t", within_s=20)
        assert failed

    in_town(scenario, leader_imbalance_check_interval_seconds="5")
    assert "a defect" in caplog.text


def test_a_session_that_ends_as_a_broker_joins_is_not_taken_for_the_next_one() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [2, 1, 0])
        cluster = town.brokers[2]
        store = store_of(cluster)
        read: Callable[[str], Awaitable[Mapping[str, Node]]] = store.tree
        over = asyncio.Event()
        store.listen(lambda event: over.set() if event is SessionEvent.OVER else None)
        late: list[str] = []

        async def tree(path: str) -> Mapping[str, Node]:
            found = await read(path)
            if not late:
                # The answer has come, and whoever waits for it goes on only after the news.
                late.append(path)
                over.clear()
                town.ensemble.expire(machine(2))
                await over.wait()
            return found

        store.tree = tree  # type: ignore[method-assign]
        town.ensemble.expire(machine(2))
        await town.until(lambda: bool(late))
        for _ in range(3000):
            await asyncio.sleep(0.001)
            node = town.ensemble.get(layout.broker_path(2))
            registered = node is not None and node.owner == store.session
            assert registered or not cluster.in_touch()
        assert town.failures[2] == []
        await town.settle()

    in_town(scenario)


def test_change_nodes_are_removed_however_many_there_are() -> None:
    many = 8000

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.settle()
        stranger = town.ensemble.client("stranger")
        await stranger.open()
        said = Announcement(brokers=True).operation()
        for _ in range(many // 1000):
            await stranger.commit(*[said] * 1000)
        left = announcements.KEPT + announcements.SPARE
        await town.until(lambda: len(town.ensemble.below(layout.CHANGES)) <= left)
        await town.settle()

    in_town(scenario)


def test_who_takes_the_office_again_finishes_what_was_begun_in_between() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.settle()
        term = town.controller.image.controller_epoch
        # Somebody else held the office in between, and the others have not noticed yet.
        town.ensemble.pause(machine(1))
        town.ensemble.pause(machine(2))
        await begin_a_topic(town, "half", Delete(layout.CONTROLLER))
        await town.until(lambda: town.brokers[0].image.controller_epoch > term)
        town.ensemble.resume(machine(1))
        town.ensemble.resume(machine(2))
        await town.create("half", [0, 1, 2])

    in_town(scenario)


def test_a_new_controller_finishes_what_was_begun_though_its_first_look_is_cut_off() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.settle()
        await begin_a_topic(town, "half")
        cut_off: list[int] = []
        for number in (1, 2):
            break_first_look_as_controller(town, number, cut_off)
        town.kill(0)
        await town.until(lambda: bool(cut_off))
        await town.settle()
        await town.until(lambda: layout.topic_path("half") not in town.ensemble.below("/"))

    in_town(scenario)


async def begin_a_topic(town: Town, name: str, *more: Op) -> None:
    """As a controller would have left it that died while it made a topic."""
    stranger = town.ensemble.client("stranger")
    await stranger.open()
    begun = Create(layout.topic_path(name), layout.encode_pending_topic())
    await stranger.commit(begun, *more)
    await stranger.close()


def break_first_look_as_controller(town: Town, number: int, cut_off: list[int]) -> None:
    cluster = town.brokers[number]
    store = store_of(cluster)
    read: Callable[[str], Awaitable[Mapping[str, Node]]] = store.tree

    async def tree(path: str) -> Mapping[str, Node]:
        if cluster.is_controller and not cut_off:
            cut_off.append(number)
            town.ensemble.break_connection(machine(number))
        return await read(path)

    store.tree = tree  # type: ignore[method-assign]


def test_a_broker_that_leaves_goes_on_leaving_in_its_next_session() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        town.ensemble.pause(machine(0))
        leaving = asyncio.create_task(town.brokers[1].leave())
        await town.until(lambda: town.stored().brokers[1].leaving)
        first = town.stored().brokers[1].epoch
        town.ensemble.expire(machine(1))
        await town.until(lambda: 1 in town.stored().brokers)
        assert town.stored().brokers[1].epoch != first
        assert town.stored().brokers[1].leaving
        town.ensemble.resume(machine(0))
        await leaving
        assert town.state("t").leader == 2

    in_town(scenario)


def test_two_of_three_leave_at_once_and_one_of_them_is_the_controller() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2], [1, 0, 2], [2, 1, 0])
        await asyncio.gather(town.stop(0), town.stop(1))
        assert [town.state("t", number).leader for number in range(3)] == [2, 2, 2]
        await town.settle()
        assert town.controller is town.brokers[2]
        assert town.watchman.unclean == []

    in_town(scenario)


def test_a_new_controller_elects_leaders_before_it_looks_through_everything() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        await town.settle()
        led_by: list[int] = []
        for number in (1, 2):
            note_at_first_look(town, number, led_by)
        town.kill(0)
        await town.settle()
        assert led_by == [1]

    in_town(scenario)


def note_at_first_look(town: Town, number: int, led_by: list[int]) -> None:
    """Who leads when that broker, as the controller, begins to read everything."""
    cluster = town.brokers[number]
    store = store_of(cluster)
    read: Callable[[str], Awaitable[Mapping[str, Node]]] = store.tree

    async def tree(path: str) -> Mapping[str, Node]:
        if cluster.is_controller:
            led_by.append(town.state("t").leader)
        return await read(path)

    store.tree = tree  # type: ignore[method-assign]
