"""Who counts as in sync and who may lead, as brokers come, go, and lose what they had."""

import asyncio
import contextlib
from functools import partial

import pytest
from tests.cluster.town import SESSION_S, Town, in_town, machine, topic_of

from barnabas.cluster import layout
from barnabas.cluster.configs import AlterOp, ConfigEdit, ConfigResource, IncrementalChange
from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import PartitionState
from barnabas.cluster.topics import NewTopic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.stops import Stop
from barnabas.ports.coordination import CoordinationLostError
from barnabas.sim.zookeeper import Transaction

ALL = (0, 1, 2)


async def alter(
    town: Town, leader: int, *isr: int, topic: str = "t", number: int = 0, **options: object
) -> PartitionState:
    """By the leader, of the state it knows."""
    known = topic_of(town, leader, topic)
    state = known.partitions[number]
    return await town.brokers[leader].alter_isr(known, number, state, isr, **options)  # type: ignore[arg-type]


def test_a_leader_changes_its_isr_and_all_brokers_learn_of_it() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        state = await alter(town, 1, 1, 0)
        assert (state.isr, state.leader_epoch, state.partition_epoch) == ((1, 0), 0, 1)
        assert topic_of(town, 1, "t").partitions[0] is state
        await town.settle()
        assert town.state("t") == state
        state = await alter(town, 1, 0, 1, 2)
        assert state.isr == (1, 2, 0)
        await town.settle()

    in_town(scenario)


def test_who_leaves_an_isr_below_the_minimum_stays_eligible() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0], min_insync_replicas="2")
        assert (await alter(town, 1, 1, 2)).eligible == ()
        assert (await alter(town, 1, 1)).eligible == (2,)
        await town.settle()
        town.kill(1)
        state = await town.led_by(2, "t")
        assert (state.isr, state.eligible) == ((2,), (1,))
        await town.settle()
        assert (await alter(town, 2, 2, 0)).eligible == ()
        assert town.watchman.unclean == []

    in_town(scenario)


def test_a_lower_minimum_makes_nobody_eligible() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0], min_insync_replicas="2")
        await alter(town, 1, 1)
        await town.settle()
        lower = IncrementalChange(
            ConfigResource(2, "t"), [ConfigEdit("min.insync.replicas", AlterOp.SET, "1")]
        )
        await town.controller.incremental_alter_configs([lower])
        state = town.state("t")
        assert (state.isr, state.eligible, state.leader_epoch) == ((1,), (), 0)
        town.kill(1)
        state = await town.led_by(-1, "t")
        assert state.isr == (1,)

    in_town(scenario)


def test_an_isr_that_somebody_changed_meanwhile_is_told() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        topic = topic_of(town, 1, "t")
        first = await alter(town, 1, 1, 2)
        with pytest.raises(StateChangedError) as changed:
            await town.brokers[1].alter_isr(topic, 0, topic.partitions[0], (1, 0))
        assert changed.value.actual == first

    in_town(scenario)


@pytest.mark.parametrize("after", [True, False])
def test_an_isr_whose_fate_is_unknown_is_found_out_by_trying_again(after: bool) -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        town.ensemble.lose_next(machine(1), after=after)
        topic = topic_of(town, 1, "t")
        with pytest.raises(CoordinationLostError):
            await alter(town, 1, 1, 2)
        await asyncio.sleep(5)
        await town.settle()
        assert town.state("t").isr == ((1, 2) if after else (1, 2, 0))
        assert topic_of(town, 1, "t").partitions[0] == town.state("t")
        if after:
            with pytest.raises(StateChangedError):
                await town.brokers[1].alter_isr(topic, 0, topic.partitions[0], (1, 2))
        else:
            assert (await alter(town, 1, 1, 2)).isr == (1, 2)

    in_town(scenario)


def test_only_the_living_join_an_isr() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        await alter(town, 1, 1)
        epoch = town.brokers[2].broker_epoch
        with pytest.raises(KafkaError) as stale:
            await alter(town, 1, 1, 2, fetched_as={2: epoch - 1})
        assert stale.value.code is ErrorCode.ineligible_replica
        town.kill(2)
        await town.until(lambda: 2 not in town.brokers[1].image.brokers)
        with pytest.raises(KafkaError) as dead:
            await alter(town, 1, 1, 2)
        assert dead.value.code is ErrorCode.ineligible_replica
        assert (await alter(town, 1, 1, 0)).isr == (1, 0)

    in_town(scenario)


@pytest.mark.parametrize("delay_ms", range(3, 11))
def test_who_dies_while_he_joins_does_not_stay(delay_ms: int) -> None:
    """The leader is the controller. It may look for elections, without that broker, before it hears
    that its own write is done: nobody else would look again while nothing is appended."""

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        await alter(town, 0, 0, 1)
        await town.settle()
        assert town.controller is town.brokers[0]
        town.kill(2)
        town.ensemble.expire(machine(2))
        await asyncio.sleep(delay_ms / 1000)
        with contextlib.suppress(KafkaError):
            await alter(town, 0, 0, 1, 2)
        await town.settle()
        assert town.state("t").isr == (0, 1)

    in_town(scenario)


def test_a_former_life_does_not_join_an_isr() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        await alter(town, 1, 1, 0)
        town.ensemble.faults.watch_delay_s = 30.0
        epoch = town.brokers[2].broker_epoch
        town.kill(2)
        await town.start(2, clean=False)
        assert town.brokers[1].image.brokers[2].epoch == epoch, "the leader does not know yet"
        with pytest.raises(KafkaError) as refused:
            await alter(town, 1, 1, 2, 0, fetched_as={2: epoch})
        assert refused.value.code is ErrorCode.ineligible_replica
        assert town.state("t").isr == (1, 0)

    in_town(scenario)


def test_an_unclean_restart_within_the_session_leaves_every_isr() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [2, 1, 0], [1, 2, 0], [2, 0, 1])
        await town.create("u", [2])
        await alter(town, 2, 2, number=2)
        await town.settle()
        town.kill(2)
        epochs = {number: town.state("t", number).leader_epoch for number in range(3)}
        await town.start(2, clean=False)
        for number in (0, 1):
            assert 2 not in town.state("t", number).isr
        await town.settle()
        assert town.state("t", 0).leader == 1
        assert town.state("t", 0).leader_epoch > epochs[0]
        assert town.state("t", 1).leader_epoch == epochs[1]
        for alone in (town.state("t", 2), town.state("u")):
            assert (alone.leader, alone.isr) == (2, (2,))
            assert alone.leader_epoch > 0

    for seed in range(5):
        in_town(scenario, seed)


def test_an_unclean_restart_gives_way_to_who_is_eligible() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [2, 1, 0], min_insync_replicas="2")
        await alter(town, 2, 2)
        await town.settle()
        town.kill(2)
        await town.start(2, clean=False)
        await town.settle()
        state = town.state("t")
        assert (state.leader, set(state.isr)) == (1, {0, 1})
        assert town.watchman.unclean == []

    in_town(scenario)


def test_a_new_directory_is_as_good_as_an_unclean_restart() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        for number in ALL:
            town.kill(number)
        assert 2 in town.state("t").isr
        await town.start(2, directory="new", clean=True)
        assert 2 not in town.state("t").isr
        await town.start(0, 1)
        await town.settle()

    in_town(scenario)


@pytest.mark.parametrize("end", ["an answer is lost", "the write is lost", "killed"])
def test_a_new_directory_stays_new_until_nobody_counts_on_it(end: str) -> None:
    """Whatever is lost once it has said that its former life is over."""

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        for number in ALL:
            town.kill(number)
        assert 2 in town.state("t").isr
        await asyncio.sleep(2 * SESSION_S)
        is_over = asyncio.Event()

        def look(transaction: Transaction) -> None:
            if layout.life_path(2) in transaction.changes:
                is_over.set()

        town.ensemble.on_commit(look)
        starting = asyncio.ensure_future(town.start(2, directory="new", clean=True))
        await is_over.wait()
        if end == "killed":
            town.kill(2)
            starting.cancel()
            await asyncio.wait([starting])
            await town.start(2, directory="new", clean=True)
        else:
            town.ensemble.lose_next(machine(2), after=end == "an answer is lost")
            await starting
        assert set(town.state("t").isr) == {0, 1}
        await town.start(0, 1)
        await town.settle()

    in_town(scenario)


def test_after_a_failed_disk_a_kill_is_no_excuse() -> None:
    """A disk that refuses every write can not even be told that it is not trusted any more."""

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        town.kill(0)
        town.kill(1)
        await town.brokers.pop(2).resign()
        assert 2 in town.state("t").isr
        await town.start(2, stop=Stop.KILLED)
        assert set(town.state("t").isr) == {0, 1}
        await town.start(0, 1, stop=Stop.KILLED)
        await town.settle()

    in_town(scenario)


def test_a_clean_restart_within_the_session_begins_anew_what_it_leads() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [2, 1, 0], [1, 2, 0])
        town.kill(2)
        await town.start(2, clean=True)
        await town.settle()
        assert (town.state("t").leader, town.state("t").isr) == (2, (2, 1, 0))
        assert town.state("t").leader_epoch == 1
        assert town.state("t", 1).isr == (1, 2, 0)
        assert town.state("t", 1).partition_epoch == 0

    in_town(scenario)


def test_the_last_in_sync_replica_is_waited_for() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        await alter(town, 1, 1)
        await town.settle()
        town.kill(1)
        state = await town.led_by(-1, "t")
        assert (state.isr, state.leader_epoch) == ((1,), 1)
        await asyncio.sleep(60)
        assert town.state("t").leader == -1
        await town.start(1, clean=False)
        state = await town.led_by(1, "t")
        assert (state.isr, state.leader_epoch) == ((1,), 2)

    in_town(scenario)


def test_an_unclean_leader_only_where_that_is_allowed() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0], unclean_leader_election_enable="true")
        await town.create("u", [1, 2, 0])
        await alter(town, 1, 1, topic="t")
        await alter(town, 1, 1, topic="u")
        await town.settle()
        town.kill(1)
        state = await town.led_by(2, "t")
        assert state.isr == (2,)
        await town.led_by(-1, "u")
        assert [path.split("/")[3] for path in town.watchman.unclean] == ["t"]
        allow = ConfigEdit("unclean.leader.election.enable", AlterOp.SET, "true")
        await town.controller.incremental_alter_configs(
            [IncrementalChange(ConfigResource(2, "u"), [allow])]
        )
        assert town.state("u").leader == 2

    in_town(scenario)


def test_leaders_are_elected_on_request() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0], [0, 1, 2], [2, 1, 0])
        await alter(town, 2, 2, number=2)
        await town.settle()
        town.kill(2)
        town.kill(1)
        await town.led_by(-1, "t", 2)
        await town.start(1)
        await town.settle()
        await alter(town, 0, 0, 1)
        await town.settle()
        controller = town.controller
        results = await controller.elect_leaders([("t", 0), ("t", 1), ("t", 2), ("t", 9), ("x", 0)])
        assert [each.code for each in results] == [
            ErrorCode.none,
            ErrorCode.election_not_needed,
            ErrorCode.preferred_leader_not_available,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.unknown_topic_or_partition,
        ]
        assert town.state("t").leader == 1
        results = await controller.elect_leaders([("t", 0), ("t", 2)], unclean=True)
        assert [each.code for each in results] == [ErrorCode.election_not_needed, ErrorCode.none]
        assert (town.state("t", 2).leader, town.state("t", 2).isr) == (1, (1,))
        assert [each.code for each in await controller.elect_leaders(None)] == [
            ErrorCode.preferred_leader_not_available
        ]

    in_town(scenario)


def test_leadership_goes_back_by_itself() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        town.kill(1)
        await town.led_by(2, "t")
        await town.start(1)
        await town.settle()
        await alter(town, 2, 2, 0, 1)
        await asyncio.sleep(10)
        assert town.state("t").leader == 2
        await town.until(lambda: town.state("t").leader == 1, within_s=400)

    in_town(scenario)


def test_an_orderly_stop_hands_everything_over_first() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2], [1, 2, 0])
        await town.create("u", [0])
        for number in ALL:
            leaving = town.brokers[number]
            await leaving.leave()
            for partition in (0, 1):
                assert town.state("t", partition).leader != number
            await town.until(partial(_is_out_of_sync, town, number))
            await town.brokers.pop(number).close()
            await town.settle()
            await town.start(number)
            await town.settle()
            for partition in (0, 1):
                leader = town.state("t", partition).leader
                await alter(town, leader, 0, 1, 2, number=partition)
            await town.settle()
        assert town.state("u").leader == 0
        assert town.watchman.unclean == []

    in_town(scenario)


def test_the_last_broker_leaves_without_waiting() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0)
        await town.create("t", [0])
        began = town.loop.time()
        await town.brokers[0].leave()
        assert town.loop.time() == began

    in_town(scenario)


def test_a_leaving_broker_gets_no_new_partitions_and_joins_no_isr() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2, 0])
        await town.brokers[2].leave()
        await town.until(lambda: 2 not in town.state("t").isr)
        await town.settle()
        with pytest.raises(KafkaError):
            await alter(town, 1, 1, 2, 0)
        await town.controller.create_topics([NewTopic("u", 20, 2)])
        held = {each for state in town.stored().topics["u"].partitions for each in state.replicas}
        assert held == {0, 1}

    in_town(scenario)


def _is_out_of_sync(town: Town, number: int) -> bool:
    return number not in town.state("t", 0).isr
