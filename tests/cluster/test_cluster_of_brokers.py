"""Several brokers on one ZooKeeper: who leads, who is told, and who may write."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from tests.cluster.town import Town, in_town, machine, topic_of

from barnabas.cluster.changes import (
    BrokerConfigChanged,
    BrokersChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from barnabas.cluster.configs import AlterOp, ConfigEdit, ConfigResource, IncrementalChange
from barnabas.cluster.errors import NotControllerError
from barnabas.cluster.layout import encode_controller
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewPartitions, NewTopic
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.ports.coordination import Create, Delete, Node, SetData

ALL = (0, 1, 2)


def set_topic(name: str, key: str, value: str) -> IncrementalChange:
    return IncrementalChange(ConfigResource(2, name), [ConfigEdit(key, AlterOp.SET, value)])


def set_broker(name: str, key: str, value: str) -> IncrementalChange:
    return IncrementalChange(ConfigResource(4, name), [ConfigEdit(key, AlterOp.SET, value)])


def test_all_brokers_see_the_same_cluster() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.settle()
        images = [each.image for each in town.brokers.values()]
        assert [list(image.brokers) for image in images] == [[0, 1, 2]] * 3
        assert len({image.cluster_id for image in images}) == 1
        assert [each.is_controller for each in town.brokers.values()] == [True, False, False]
        epochs = [image.brokers[2].epoch for image in images]
        assert epochs == [town.brokers[2].broker_epoch] * 3

    in_town(scenario)


def test_brokers_that_start_at_once_agree_on_one_cluster() -> None:
    async def scenario(town: Town) -> None:
        await asyncio.gather(*(town.start(number) for number in ALL))
        await town.settle()
        assert len({each.image.cluster_id for each in town.brokers.values()}) == 1

    for seed in range(10):
        in_town(scenario, seed)


def test_every_broker_hears_of_every_change_in_order() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1], [1, 2])
        controller = town.controller
        await town.settle()
        for heard in town.heard.values():
            heard.clear()
        await controller.create_partitions([NewPartitions("t", 3, [[2, 0]])])
        await town.settle()
        await controller.incremental_alter_configs([set_topic("t", "retention.ms", "7")])
        await town.settle()
        await controller.incremental_alter_configs([set_broker("", "log.segment.bytes", "2000000")])
        await town.settle()
        await controller.delete_topics(["t"])
        await town.settle()
        expected = [
            PartitionsAdded,
            TopicConfigChanged,
            BrokerConfigChanged,
            TopicConfigChanged,
            TopicDeleted,
        ]
        for heard in town.heard.values():
            assert [type(each) for each in heard] == expected

    in_town(scenario)


def test_changes_missed_by_the_hundred_are_caught_up_with() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        town.ensemble.cut(machine(2))
        for number in range(1300):
            await town.controller.incremental_alter_configs(
                [set_broker("", "log.retention.ms", str(number + 1))]
            )
        await town.controller.create_topics([NewTopic("t", 1, 1)])
        await town.until(lambda: 2 not in town.controller.image.brokers)
        town.ensemble.heal(machine(2))
        await town.settle()
        assert "t" in town.brokers[2].image.topics
        assert town.brokers[2].image.config["log.retention.ms"] == 1300
        assert len(town.ensemble.below("/barnabas/changes")) <= 1100

    in_town(scenario)


def test_only_the_controller_changes_topics() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        bystander = town.brokers[1]
        for attempt in (
            bystander.delete_topics(["t"]),
            bystander.create_partitions([NewPartitions("t", 2)]),
            bystander.incremental_alter_configs([set_topic("t", "retention.ms", "1")]),
            bystander.elect_leaders(None),
            bystander.create_topics([NewTopic("t")], validate_only=True),
            bystander.create_topics([NewTopic("t")], hand_on=False),
        ):
            with pytest.raises(NotControllerError) as refusal:
                await attempt
            assert refusal.value.code is ErrorCode.not_controller

    in_town(scenario)


def test_any_broker_has_topics_made_by_the_controller() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        (result,) = await town.brokers[2].create_topics([NewTopic("t", 2, 3)])
        assert result.code is ErrorCode.none
        assert "t" in town.brokers[2].image.topics
        (again,) = await town.brokers[1].create_topics([NewTopic("t", 2, 3)])
        assert again.code is ErrorCode.topic_already_exists
        assert "t" in town.brokers[1].image.topics

    in_town(scenario)


def test_another_brokers_settings_are_its_own() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        change = set_broker("2", "max.connections", "77")
        (result,) = await town.controller.incremental_alter_configs([change])
        assert result.code is ErrorCode.none
        await town.settle()
        limits = [each.image.config.max_connections for each in town.brokers.values()]
        assert limits[2] == 77
        assert 77 not in limits[:2]
        (unknown,) = await town.controller.incremental_alter_configs(
            [set_broker("9", "max.connections", "77")]
        )
        assert unknown.code is ErrorCode.invalid_request

    in_town(scenario)


def test_a_dead_brokers_partitions_get_other_leaders() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0], [2, 0, 1], [0, 1, 2])
        town.kill(1)
        state = await town.led_by(2, "t", 0)
        assert (state.isr, state.leader_epoch, state.eligible) == ((2, 0), 1, ())
        await town.settle()
        followed = town.state("t", 1)
        assert (followed.leader, followed.leader_epoch, followed.isr) == (2, 0, (2, 0))
        changed = [each for each in town.heard[2] if isinstance(each, PartitionsChanged)]
        assert {n for each in changed for n in each.numbers} == {0, 1, 2}
        assert BrokersChanged() in town.heard[2]

    in_town(scenario)


def test_the_controller_dies_and_another_one_goes_on() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        town.kill(0)
        state = await town.led_by(1, "t")
        assert state.isr == (1, 2)
        await town.settle()
        assert town.controller.image.controller_epoch == 2
        (made,) = await town.controller.create_topics([NewTopic("u", 1, 2)])
        assert made.code is ErrorCode.none

    in_town(scenario)


def test_a_controller_that_slept_writes_nothing() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        old = town.controller
        town.ensemble.pause(machine(0))
        assert old.in_touch()
        await town.until(lambda: town.brokers[1].is_controller or town.brokers[2].is_controller)
        await town.led_by(1, "t")
        assert old.is_controller
        assert not old.in_touch()
        late = asyncio.create_task(old.create_topics([NewTopic("late", 1, 1)]))
        await asyncio.sleep(1)
        town.ensemble.resume(machine(0))
        with pytest.raises(NotControllerError):
            await late
        await town.settle()
        assert not old.is_controller
        assert "late" not in town.stored().topics

    for seed in range(5):
        in_town(scenario, seed)


def test_a_controller_that_was_deposed_is_refused_by_the_epoch_alone() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        town.ensemble.faults.watch_delay_s = 50.0
        old = town.controller
        operator = town.ensemble.client("operator")
        await operator.open()
        epoch = await operator.get("/controller_epoch")
        assert epoch is not None
        await operator.commit(
            Delete("/controller"),
            Create("/controller", encode_controller(9, 0), ephemeral=True),
            SetData("/controller_epoch", b"2", epoch.version),
        )
        assert old.is_controller
        with pytest.raises(NotControllerError):
            await old.create_topics([NewTopic("late", 1, 1)])
        assert not old.is_controller
        assert "late" not in town.stored().topics

    in_town(scenario)


def test_a_session_that_ended_is_followed_by_another() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2], [1, 2, 0])
        for number in ALL:
            before = town.brokers[number].broker_epoch
            town.ensemble.expire(machine(number))
            await town.until(partial(_is_out_of_touch, town, number))
            await town.settle()
            assert town.brokers[number].broker_epoch > before
        assert town.watchman.unclean == []

    in_town(scenario)


def test_brokers_outlive_a_loss_of_the_quorum() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        town.ensemble.lose_quorum()
        making = asyncio.create_task(town.brokers[0].create_topics([NewTopic("u", 1, 3)]))
        await asyncio.sleep(30)
        assert not any(each.in_touch() for each in town.brokers.values())
        town.ensemble.regain_quorum()
        await town.settle()
        (made,) = await making
        assert made.code is ErrorCode.none
        assert "u" in topic_names(town)
        assert town.state("t").leader_epoch == 0

    for seed in range(6):
        in_town(scenario, seed)


def topic_names(town: Town) -> list[str]:
    return list(town.stored().topics)


def test_a_broker_number_can_not_be_had_twice() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        first = town.brokers[1]
        began = town.loop.time()
        with pytest.raises(
            BarnabasError, match=r"Broker 1 is registered already .* data directory"
        ):
            await town.start(1, directory="other")
        assert 5 < town.loop.time() - began < 12
        town.brokers[1] = first
        await town.settle()

    in_town(scenario)


def test_a_dying_namesake_is_waited_for() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        town.kill(1)
        await asyncio.sleep(3)
        await town.start(1, directory="other")
        await town.settle()

    in_town(scenario)


def test_a_copied_data_directory_stops_the_one_that_was_there_first() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        first = town.brokers[1]
        told = town.failures.pop(1)
        await town.start(1)
        await town.until(lambda: bool(told))
        assert "copy of this data directory" in told[0]
        assert not first.in_touch()
        await town.settle()
        assert town.failures[1] == []
        first.abandon()

    in_town(scenario)


def test_a_data_directory_belongs_to_one_cluster_and_one_broker() -> None:
    async def scenario(town: Town) -> None:
        with pytest.raises(BarnabasError, match="the cluster's store is empty"):
            await town.start(0, cluster_id="abc")
        await town.start(0)
        with pytest.raises(BarnabasError, match="belongs to cluster abc, and the store to cluster"):
            await town.start(1, cluster_id="abc")
        await town.start(1, cluster_id=town.brokers[0].image.cluster_id)
        await town.stop(1)
        with pytest.raises(BarnabasError, match=r"start it with node\.id=1"):
            await town.start(2, directory="dir-1")

    in_town(scenario)


def test_a_store_of_another_system_is_not_touched() -> None:
    async def scenario(town: Town) -> None:
        operator = town.ensemble.client("operator")
        await operator.open()
        for path in ("/brokers", "/brokers/ids"):
            await operator.commit(Create(path))
        kafka = b'{"version":5,"host":"h","port":9092}'
        await operator.commit(Create("/brokers/ids/5", kafka, ephemeral=True))
        with pytest.raises(BarnabasError, match="Broker 5 of this store is not Barnabas"):
            await town.start(0)
        assert "/barnabas" not in town.ensemble.below("/")

    in_town(scenario)


def test_a_topic_of_another_name_is_not_confused_with_one_that_is_gone() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1])
        before = topic_of(town, 2, "t")
        await town.controller.delete_topics(["t"])
        await town.create("t", [1, 2])
        await town.settle()
        after = topic_of(town, 2, "t")
        assert before.id != after.id
        kinds = [
            type(each) for each in town.heard[2] if isinstance(each, TopicCreated | TopicDeleted)
        ]
        assert kinds == [TopicCreated, TopicDeleted, TopicCreated]
        with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await town.brokers[0].alter_isr(before, 0, before.partitions[0], (0,))
        assert town.state("t").isr == (1, 2)

    in_town(scenario)


def _is_out_of_touch(town: Town, number: int) -> bool:
    return not town.brokers[number].in_touch()


def test_many_topics_are_read_together_not_one_after_the_other() -> None:
    many = 200

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.settle()
        rounds = count_rounds(town.brokers[1])
        new = [NewTopic(f"t{number}", assignments=[(0, ALL)]) for number in range(many)]
        await town.controller.create_topics(new)
        await town.settle()
        changes = [set_topic(f"t{number}", "retention.ms", "1") for number in range(many)]
        await town.controller.incremental_alter_configs(changes)
        await town.settle()
        town.kill(2)
        await town.until(lambda: all(2 not in state.isr for state in town.states().values()))
        await town.settle()
        assert len(town.brokers[1].image.topics) == many
        # Each of the three would be a round for each topic, at least.
        assert len(rounds) < many / 2

    in_town(scenario)


def count_rounds(cluster: Cluster) -> list[str]:
    """With which nodes a broker began to read, while it was waiting for no other."""
    store = cluster._coordination
    read: Callable[[str], Awaitable[Node | None]] = store.get
    rounds: list[str] = []
    waiting: set[object] = set()

    async def get(path: str) -> Node | None:
        if not waiting:
            rounds.append(path)
        question = object()
        waiting.add(question)
        try:
            return await read(path)
        finally:
            waiting.discard(question)

    store.get = get  # type: ignore[method-assign]
    return rounds
