"""A store that is empty, or another cluster's or system's: told in a sentence, never touched."""

import asyncio

import pytest
from tests.cluster.town import SESSION_S, Town, in_town, machine

from barnabas.cluster import layout
from barnabas.cluster.announcements import Announcement
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import Create, Delete, Op, SetData

OWN_PATH = (
    r"give Barnabas a path of its own in (the store|it) \(zookeeper\.connect=host:port/path\)"
)
SHARED = {"zookeeper_connect": "somewhere:2181"}


async def fill(town: Town, nodes: dict[str, bytes]) -> None:
    """As a stranger writes these nodes, and whatever must be above them."""
    town.watchman.sleeps = True
    operator = town.ensemble.client("operator")
    await operator.open()
    for path, data in nodes.items():
        parts = path.split("/")[1:]
        for depth in range(1, len(parts)):
            above = "/" + "/".join(parts[:depth])
            if town.ensemble.get(above) is None:
                await operator.commit(Create(above))
        if town.ensemble.get(path) is None:
            await operator.commit(Create(path, data))
        else:
            node = town.ensemble.get(path)
            await operator.commit(SetData(path, data, -1 if node is None else node.version))


@pytest.mark.parametrize(
    "nodes",
    [
        {"/cluster/id": b'{"version":"1","id":"kafka"}'},
        {"/cluster/id": b"no JSON"},
        {"/controller_epoch": b"7"},
        {"/controller": b"whatever"},
        {"/brokers/topics/t": b'{"partitions":{"0":[0]},"version":3}'},
        {"/brokers/ids": b"", "/config/topics/t": b'{"version":1,"config":{}}'},
        {"/config/brokers/1": b"junk"},
    ],
)
def test_what_a_kafka_that_is_not_running_left_is_not_taken_over(nodes: dict[str, bytes]) -> None:
    async def scenario(town: Town) -> None:
        await fill(town, nodes)
        before = town.ensemble.zxid
        with pytest.raises(BarnabasError, match=OWN_PATH) as refused:
            await town.start(0)
        assert next(reversed(nodes)) in str(refused.value)
        assert "/barnabas" not in town.ensemble.below("/")
        written = [path for path, node in town.ensemble.below("/").items() if node.created > before]
        assert written == []

    in_town(scenario, **SHARED)


def test_nodes_of_others_beside_ours_are_left_alone() -> None:
    async def scenario(town: Town) -> None:
        strange = {
            "/hbase/rs": b"\x00\xff",
            "/consumers/x": b"",
            "/config/users": b"",
            "/brokers": b"",
        }
        await fill(town, strange)
        await town.start(0)
        await town.create("t", [0])
        assert {path: town.ensemble.below("/")[path].data for path in strange} == strange

    in_town(scenario, **SHARED)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/ids/stranger", b"x"),
        ("/brokers/ids/5", b"x"),
        ("/brokers/ids/5", b"[]"),
        ("/brokers/ids/5", b'{"version":5,"host":"h","port":9092}'),
        ("/controller_epoch", b"x"),
        ("/cluster/id", b"[1]"),
        ("/barnabas/lives/stranger", b"x"),
        ("/barnabas/lives/5", b"x"),
        ("/brokers/topics/t", b"x"),
    ],
)
def test_what_others_write_among_ours_is_named(path: str, data: bytes) -> None:
    async def scenario(town: Town) -> None:
        await town.start(0)
        await town.stop(0)
        await fill(town, {path: data})
        with pytest.raises(BarnabasError, match=OWN_PATH) as refused:
            await town.start(0)
        assert path in str(refused.value) or f"Broker {path.split('/')[-1]} " in str(refused.value)

    in_town(scenario, **SHARED)


def test_a_store_that_another_broker_makes_at_this_moment_is_ours() -> None:
    """However far the other has got with looking when it is made."""

    async def late(town: Town, moment_s: float) -> None:
        await asyncio.sleep(moment_s)
        await town.start(1)

    async def scenario(town: Town) -> None:
        town.ensemble.faults.lag_s = 0.01
        for step in range(80):
            await asyncio.gather(town.start(0), late(town, step * 0.002))
            assert town.brokers[0].image.cluster_id == town.brokers[1].image.cluster_id
            await town.stop(1)
            await town.stop(0)
            town.watchman.sleeps = True
            await lose_everything(town)

    in_town(scenario, **SHARED)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"version":2}',
        b'{"topics":[1],"brokers":false,"configs":[]}',
        b'{"topics":"t","brokers":false,"configs":["topics"]}',
        b'{"topics":["a/b"],"brokers":false,"configs":[]}',
        b'{"topics":["t"],"partitions":{"t":"0"},"brokers":false,"configs":[]}',
        b'{"topics":["t"],"partitions":{"t":[-1]},"brokers":false,"configs":[]}',
        b'{"topics":[],"brokers":false,"configs":["brokers/"]}',
        b'{"topics":[[]],"brokers":false,"configs":[]}',
        b"[" * 100_000,
    ],
)
def test_a_change_node_that_says_nothing_stops_no_election(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it may be about is read anew, and it is never looked at again."""

    async def scenario(town: Town) -> None:
        await town.start(0, 1, 2)
        await town.create("t", [1, 2, 0])
        await town.settle()
        await write(town, Create(layout.CHANGE, data, sequence=True))
        await asyncio.sleep(1)
        assert caplog.text.count("holds no announcement") == len(town.brokers)
        town.kill(1)
        assert (await town.led_by(2, "t")).isr == (2, 0)
        await town.settle()
        assert caplog.text.count("holds no announcement") == len(town.brokers) + 1
        assert not any(town.failures.values())

    in_town(scenario, **SHARED)


@pytest.mark.parametrize("name", ["a-stranger", "stranger", "change-", "change-x"])
def test_a_strange_name_among_the_change_nodes_is_passed_over(name: str) -> None:
    """It would come before all others, or after all that are ever made."""

    async def scenario(town: Town) -> None:
        await town.start(0, 1, 2)
        await town.create("t", [1, 2, 0])
        await town.settle()
        await write(town, Create(f"{layout.CHANGES}/{name}", b""))
        await town.create("u", [2, 1, 0])
        town.kill(1)
        await town.led_by(2, "t")
        await town.settle()

    in_town(scenario, **SHARED)


def test_who_takes_office_leaves_alone_what_is_no_partition() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        await town.create("t", [1, 0])
        path = f"{layout.partitions_path('t')}/stranger"
        await write(town, Create(path, b""))
        town.kill(0)
        await town.until(lambda: town.brokers[1].is_controller)
        # The new controller elects first, and looks through everything afterwards.
        await asyncio.sleep(5)
        await town.settle()
        assert town.failures[1] == []
        assert town.ensemble.get(path) is not None

    in_town(scenario, **SHARED)


def test_a_store_that_makes_no_sense_any_more_is_complained_of_until_it_does() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        await town.create("t", [0, 1])
        await town.settle()
        path, patience_s = layout.topic_path("t"), 3 * SESSION_S
        sound = town.ensemble.below("/")[path].data
        told = Announcement(topics=frozenset({"t"})).operation()
        town.watchman.sleeps = True
        await write(town, SetData(path, b"x", -1), told)
        await asyncio.sleep(patience_s - 1)
        assert [each.complaint for each in town.brokers.values()] == ["", ""]
        await asyncio.sleep(2)
        assert all(path in each.complaint for each in town.brokers.values())
        assert not any(town.failures.values())
        await write(town, SetData(path, sound, -1))
        await town.until(lambda: not any(each.complaint for each in town.brokers.values()))
        await town.create("u", [1, 0])

    in_town(scenario, **SHARED)


def test_a_store_that_is_away_is_complained_of_by_nobody() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        await town.settle()
        for away in (town.ensemble.lose_quorum, lambda: town.ensemble.cut(machine(1))):
            away()
            for _ in range(10):
                await asyncio.sleep(SESSION_S)
                assert [each.complaint for each in town.brokers.values()] == ["", ""]
            town.ensemble.regain_quorum()
            town.ensemble.heal(machine(1))
            await town.settle()

    in_town(scenario, **SHARED)


async def write(town: Town, *operations: Op) -> None:
    """As a stranger does."""
    town.watchman.sleeps = True
    stranger = town.ensemble.client("stranger")
    await stranger.open()
    await stranger.commit(*operations)
    await stranger.close()
    town.watchman.sleeps = False


async def lose_everything(town: Town) -> None:
    operator = town.ensemble.client("operator")
    await operator.open()
    for path in sorted(town.ensemble.below("/"), key=lambda each: -each.count("/")):
        if (node := town.ensemble.get(path)) is not None:
            await operator.commit(Delete(path, node.version))


@pytest.mark.parametrize("other", [None, b'{"version":"1","id":"another"}'])
def test_a_store_that_was_replaced_while_brokers_ran_removes_no_topic(other: bytes | None) -> None:
    """It came back empty, or is another cluster's: nothing in it is any news of this one."""

    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        await town.create("t", [0, 1])
        await town.settle()
        for number in (0, 1):
            town.ensemble.cut(machine(number))
        await asyncio.sleep(30)
        await lose_everything(town)
        if other is not None:
            await fill(town, {"/cluster/id": other, "/brokers/ids": b"", "/barnabas/lives": b""})
        for number in (0, 1):
            town.ensemble.heal(machine(number))
        await asyncio.sleep(30)
        for number in (0, 1):
            (reason,) = town.failures[number]
            assert "let the broker use" in reason
            assert "t" in town.brokers[number].image.topics
            assert town.heard[number] != []
            assert not any("Deleted" in type(each).__name__ for each in town.heard[number])
            town.brokers[number].abandon()

    in_town(scenario, **SHARED)
