"""The cluster over its store: what is stored is the image, through failures and restarts."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.cluster.changes import (
    Change,
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from barnabas.cluster.configs import AlterOp, ConfigEdit, ConfigResource, IncrementalChange
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewPartitions, NewTopic
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.check import BrokenInvariantError
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.model.stops import Stop
from barnabas.ports.coordination import Delete, Node, NoNodeError, Op, SetData
from barnabas.ports.entropy import Entropy
from barnabas.world.clock import RealClock
from barnabas.world.embedded import EmbeddedCoordination

Seeded = Callable[[int], Entropy]


class FailingStore(EmbeddedCoordination):
    """The real store, which can be told to fail, or to wait, before the next commit."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.failing = False
        self.gate: asyncio.Event | None = None

    async def commit(self, *operations: Op) -> None:
        if self.gate:
            await self.gate.wait()
        if self.failing:
            operations = (*operations, Delete("/no/such/node"))
        await super().commit(*operations)


class ReopenedStore(EmbeddedCoordination):
    """The real store, for two who use one session."""

    async def open(self) -> None:
        pass


def kept(tree: Mapping[str, Node]) -> dict[str, Node]:
    """What is stored, without how it came to be."""
    passing = ("/barnabas/changes", "/barnabas/last_commit")
    return {path: node for path, node in tree.items() if not path.startswith(passing)}


async def started(store: EmbeddedCoordination, entropy: Entropy, **static: str) -> Cluster:
    dotted = {name.replace("_", "."): value for name, value in static.items()}
    cluster = Cluster(store, BrokerConfig(dotted), entropy, RealClock())
    await cluster.start("localhost", 9092, directory="d", stop=Stop.CLEAN)
    return cluster


def set_topic(name: str, key: str, value: str) -> IncrementalChange:
    return IncrementalChange(ConfigResource(2, name), [ConfigEdit(key, AlterOp.SET, value)])


def set_brokers(key: str, value: str) -> IncrementalChange:
    return IncrementalChange(ConfigResource(4, ""), [ConfigEdit(key, AlterOp.SET, value)])


def test_a_fresh_start_registers_and_takes_office(entropy: Entropy) -> None:
    async def scenario() -> None:
        store = EmbeddedCoordination(":memory:")
        cluster = await started(store, entropy, node_id="4", broker_rack="r")
        tree = await store.tree("/")
        assert {"/cluster/id", "/brokers/ids/4", "/controller", "/controller_epoch"} <= set(tree)
        assert tree["/controller_epoch"].data == b"1"
        image = cluster.image
        assert len(image.cluster_id) == 22
        assert (image.controller_id, image.topics) == (4, {})
        assert (image.brokers[4].host, image.brokers[4].rack) == ("localhost", "r")

    asyncio.run(scenario())


def test_before_the_start_there_is_no_image(entropy: Entropy) -> None:
    store = EmbeddedCoordination(":memory:")
    cluster = Cluster(store, BrokerConfig(), entropy, RealClock())
    with pytest.raises(BrokenInvariantError):
        _ = cluster.image
    asyncio.run(store.close())


def test_listeners_hear_of_a_change_before_the_caller_does(entropy: Entropy) -> None:
    async def scenario() -> None:
        cluster = await started(EmbeddedCoordination(":memory:"), entropy)
        heard: list[Change] = []
        seen: list[bool] = []

        def listen(change: Change) -> None:
            heard.append(change)
            seen.append("t" in cluster.image.topics)

        cluster.subscribe(listen)
        await cluster.create_topics([NewTopic("t", 1)])
        await cluster.create_partitions([NewPartitions("t", 3)])
        await cluster.incremental_alter_configs([set_topic("t", "retention.ms", "1")])
        grown = cluster.image.topics["t"]
        await cluster.delete_topics(["t"])
        kinds = [TopicCreated, PartitionsAdded, TopicConfigChanged, TopicDeleted]
        assert [type(each) for each in heard] == kinds
        assert heard[-1] == TopicDeleted(grown)
        assert seen == [True, True, True, False]

    asyncio.run(scenario())


def test_validating_changes_nothing(entropy: Entropy) -> None:
    async def scenario() -> None:
        store = EmbeddedCoordination(":memory:")
        cluster = await started(store, entropy)
        await cluster.create_topics([NewTopic("t", 1)])
        cluster.subscribe(lambda change: pytest.fail(f"heard {change}"))
        image, tree = cluster.image, await store.tree("/")
        (made,) = await cluster.create_topics([NewTopic("u", 2)], validate_only=True)
        assert made.topic is not None
        (grown,) = await cluster.create_partitions([NewPartitions("t", 2)], validate_only=True)
        assert grown.code is ErrorCode.none
        change = set_topic("t", "retention.ms", "1")
        (altered,) = await cluster.incremental_alter_configs([change], validate_only=True)
        assert altered.code is ErrorCode.none
        assert cluster.image is image
        assert await store.tree("/") == tree

    asyncio.run(scenario())


def test_a_failed_commit_changes_nothing(entropy: Entropy) -> None:
    async def scenario() -> None:
        store = FailingStore(":memory:")
        cluster = await started(store, entropy)
        await cluster.create_topics([NewTopic("t", 1)])
        cluster.subscribe(lambda change: pytest.fail(f"heard {change}"))
        image, tree = cluster.image, await store.tree("/")
        store.failing = True
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: cluster.create_topics([NewTopic("u", 1)]),
            lambda: cluster.delete_topics(["t"]),
            lambda: cluster.create_partitions([NewPartitions("t", 2)]),
            lambda: cluster.incremental_alter_configs([set_topic("t", "retention.ms", "1")]),
            cluster.allocate_producer_ids,
        ]
        for attempt in attempts:
            with pytest.raises(NoNodeError):
                await attempt()
        assert cluster.image is image
        assert await store.tree("/") == tree

    asyncio.run(scenario())


def test_a_caller_who_leaves_does_not_part_image_and_store(entropy: Entropy) -> None:
    async def scenario() -> None:
        store = FailingStore(":memory:")
        cluster = await started(store, entropy)
        store.gate = asyncio.Event()
        caller = asyncio.create_task(cluster.create_topics([NewTopic("t", 1)]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert cluster.image.topics == {}
        store.gate.set()
        (second,) = await cluster.create_topics([NewTopic("t", 1)])
        assert second.code is ErrorCode.topic_already_exists
        assert "/brokers/topics/t" in await store.tree("/")

    asyncio.run(scenario())


def test_callers_at_once_are_served_one_after_another(entropy: Entropy) -> None:
    async def scenario() -> None:
        cluster = await started(EmbeddedCoordination(":memory:"), entropy)
        answers = await asyncio.gather(
            *(cluster.create_topics([NewTopic("same", 1), NewTopic(f"t{n}", 1)]) for n in range(9))
        )
        codes = [same.code for same, _ in answers]
        assert sorted(codes) == [ErrorCode.none] + [ErrorCode.topic_already_exists] * 8
        assert len(cluster.image.topics) == 10

    asyncio.run(scenario())


def test_producer_ids_are_never_given_twice(entropy: Entropy, tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        cluster = await started(EmbeddedCoordination(path), entropy)
        blocks = await asyncio.gather(*(cluster.allocate_producer_ids() for _ in range(3)))
        await cluster.close()
        cluster = await started(EmbeddedCoordination(path), entropy)
        blocks.append(await cluster.allocate_producer_ids())
        assert sorted(blocks, key=lambda block: block.start) == [
            range(start, start + 1000) for start in range(0, 4000, 1000)
        ]
        await cluster.close()

    asyncio.run(scenario())


def test_a_block_taken_by_another_broker_is_passed_over(entropy: Entropy) -> None:
    class RacedStore(EmbeddedCoordination):
        raced = False

        async def commit(self, *operations: Op) -> None:
            if self.raced:
                self.raced = False
                (ours,) = operations
                assert isinstance(ours, SetData)
                await super().commit(ours)
            await super().commit(*operations)

    async def scenario() -> None:
        store = RacedStore(":memory:")
        cluster = await started(store, entropy)
        store.raced = True
        assert await cluster.allocate_producer_ids() == range(1000, 2000)

    asyncio.run(scenario())


NAMES = st.sampled_from(["a", "b", "c.d", "c_d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.integers(0, 4)),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("grow"), NAMES, st.integers(0, 6)),
        st.tuples(st.just("topic"), NAMES, st.integers(-2, 3)),
        st.tuples(st.just("brokers"), NAMES, st.integers(-2, 3)),
    ),
    max_size=12,
)


async def take(cluster: Cluster, step: tuple[str, str, int]) -> None:
    match step:
        case ("create", name, count):
            await cluster.create_topics([NewTopic(name, count)])
        case ("delete", name, _):
            await cluster.delete_topics([name])
        case ("grow", name, count):
            await cluster.create_partitions([NewPartitions(name, count)])
        case ("topic", name, value):
            await cluster.incremental_alter_configs([set_topic(name, "retention.ms", str(value))])
        case (_, _, value):
            change = set_brokers("log.retention.ms", str(value))
            await cluster.incremental_alter_configs([change])


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, seed=st.integers(0, 9))
def test_a_restart_finds_what_was_there(
    seeded: Seeded, tmp_path: Path, steps: list[tuple[str, str, int]], seed: int
) -> None:
    async def scenario() -> None:
        path = tmp_path / "store"
        for old in tmp_path.glob("store*"):
            old.unlink()
        cluster = await started(EmbeddedCoordination(str(path)), seeded(seed))
        for step in steps:
            await take(cluster, step)
        before = cluster.image
        await cluster.close()
        again = await started(EmbeddedCoordination(str(path)), seeded(seed + 1))
        assert again.image.controller_epoch == before.controller_epoch + 1
        assert (
            replace(again.image, brokers=before.brokers, controller_epoch=before.controller_epoch)
            == before
        )
        await again.close()

    asyncio.run(scenario())


def test_deleting_every_topic_leaves_no_trace(entropy: Entropy) -> None:
    async def scenario() -> None:
        store = EmbeddedCoordination(":memory:")
        cluster = await started(store, entropy)
        before = kept(await store.tree("/"))
        await cluster.create_topics([NewTopic("a", 3), NewTopic("b", 1)])
        await cluster.create_partitions([NewPartitions("b", 2)])
        await cluster.delete_topics(["a", "b"])
        assert kept(await store.tree("/")) == before

    asyncio.run(scenario())


def test_another_broker_does_not_take_over_somebodys_partitions(
    entropy: Entropy, tmp_path: Path
) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        cluster = await started(EmbeddedCoordination(path), entropy)
        await cluster.create_topics([NewTopic("t", 1)])
        await cluster.close()
        store = EmbeddedCoordination(path)
        with pytest.raises(BarnabasError, match=r"start it with node\.id=0"):
            await started(store, entropy, node_id="1")
        assert "/brokers/ids/1" not in await store.tree("/")
        await store.close()

    asyncio.run(scenario())


def test_two_brokers_with_one_number_can_not_both_start(entropy: Entropy) -> None:
    async def scenario() -> None:
        store = ReopenedStore(":memory:")
        await started(store, entropy)
        with pytest.raises(BarnabasError, match="Broker 0 is registered already"):
            await started(store, entropy)

    asyncio.run(scenario())


def test_stored_settings_this_broker_can_not_use_are_left_out(
    entropy: Entropy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        store = EmbeddedCoordination(path)
        cluster = await started(store, entropy)
        await cluster.create_topics([NewTopic("t", 1, configs={"segment.ms": "7"})])
        odd = b'{"version":1,"config":{"retired.key":"1","flush.ms":"x","segment.ms":"7"}}'
        await store.commit(SetData("/config/topics/t", odd))
        await cluster.close()
        again = await started(EmbeddedCoordination(path), entropy)
        assert again.image.topics["t"].overrides == {"segment.ms": "7"}
        assert "retired.key" in caplog.text
        assert "flush.ms" in caplog.text
        await again.close()

    asyncio.run(scenario())


def test_a_store_with_holes_is_named(entropy: Entropy, tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        store = EmbeddedCoordination(path)
        cluster = await started(store, entropy)
        await cluster.create_topics([NewTopic("t", 1)])
        await store.commit(Delete("/config/topics/t"))
        await cluster.close()
        store = EmbeddedCoordination(path)
        with pytest.raises(BarnabasError, match="there is nothing at /config/topics/t"):
            await started(store, entropy)
        await store.close()

    asyncio.run(scenario())


def test_controllers_count_their_terms(entropy: Entropy, tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        for term in (b"1", b"2", b"3"):
            store = EmbeddedCoordination(path)
            cluster = await started(store, entropy)
            assert (await store.tree("/"))["/controller_epoch"].data == term
            await cluster.close()

    asyncio.run(scenario())


def test_new_epochs_are_begun_when_asked_and_stay(entropy: Entropy, tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store")
        cluster = await started(EmbeddedCoordination(path), entropy)
        await cluster.create_topics([NewTopic("t", partitions=2)])
        await cluster.close()
        for stop, expected in (
            (Stop.CLEAN, 0),
            (Stop.LOSSY, 1),
            (Stop.CLEAN, 1),
            (Stop.KILLED, 2),
        ):
            cluster = Cluster(EmbeddedCoordination(path), BrokerConfig(), entropy, RealClock())
            await cluster.start("localhost", 9092, directory="d", stop=stop)
            epochs = [state.leader_epoch for state in cluster.image.topics["t"].partitions]
            assert epochs == [expected] * 2
            await cluster.close()

    asyncio.run(scenario())
