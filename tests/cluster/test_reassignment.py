"""Partitions of several brokers' clusters are moved: who may, what is refused, and who goes on
when a controller dies on the way."""

import asyncio
import json

import pytest
from tests.cluster.town import Town, in_town, machine, topic_of

from barnabas.cluster import layout
from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import PartitionState
from barnabas.cluster.reassignment import Reassignment, under_way
from barnabas.cluster.topics import NewPartitions
from barnabas.model.errors import ErrorCode

ALL = (0, 1, 2, 3)


async def move(
    town: Town, replicas: tuple[int, ...] | None, number: int = 0, topic: str = "t"
) -> ErrorCode:
    (result,) = await town.controller.reassign([Reassignment(topic, number, replicas)])
    return result.code


async def catch_up(town: Town, *joining: int) -> PartitionState:
    """As if these had copied everything: their leader has that written."""
    await town.settle()
    state = town.state("t")
    leader = town.brokers[state.leader]
    members = tuple(each for each in state.replicas if each in (*state.isr, *joining))
    return await leader.alter_isr(topic_of(town, state.leader, "t"), 0, state, members)


@pytest.mark.parametrize("leader", [0, 1])
def test_a_move_ends_once_all_are_in_sync_whoever_leads(leader: int) -> None:
    """Broker 0 is the controller: it also has to notice what it has written as a leader."""

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [leader])
        assert await move(town, (2, 3)) is ErrorCode.none
        state = town.state("t")
        assert (state.replicas, state.adding, state.removing) == (
            (2, 3, leader),
            (2, 3),
            (leader,),
        )
        moving = [(t.name, n, s) for t, n, s in under_way(town.controller.image, None)]
        assert moving == [("t", 0, state)]
        node = json.loads(town.ensemble.below("/")[layout.topic_path("t")].data)
        assert node["partitions"] == {"0": [2, 3, leader]}
        assert node["adding_replicas"] == {"0": [2, 3]}
        assert node["removing_replicas"] == {"0": [leader]}
        await catch_up(town, 2)
        await town.settle()
        assert town.state("t").is_moving
        await catch_up(town, 3)
        await town.until(lambda: not town.state("t").is_moving)
        await town.settle()
        after = town.state("t")
        assert (after.leader, after.replicas, after.isr) == (2, (2, 3), (2, 3))
        assert after.leader_epoch == 1
        assert not list(under_way(town.controller.image, None))
        assert json.loads(town.ensemble.below("/")[layout.topic_path("t")].data) == {
            **node,
            "partitions": {"0": [2, 3]},
            "adding_replicas": {},
            "removing_replicas": {},
        }

    in_town(scenario)


def test_what_can_not_be_is_refused() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1], [1, 2])
        before = town.states()
        assignment = ErrorCode.invalid_replica_assignment
        assert await move(town, ()) is assignment
        assert await move(town, (1, 1)) is assignment
        assert await move(town, (1, 9)) is assignment
        assert await move(town, (-1,)) is assignment
        assert await move(town, None) is ErrorCode.no_reassignment_in_progress
        assert await move(town, (1,), number=2) is ErrorCode.unknown_topic_or_partition
        assert await move(town, (1,), topic="u") is ErrorCode.unknown_topic_or_partition
        twice = [Reassignment("t", 0, (2, 3)), Reassignment("t", 0, (1, 3))]
        codes = [each.code for each in await town.controller.reassign(twice)]
        assert codes == [ErrorCode.invalid_request] * 2
        (kept,) = await town.controller.reassign([Reassignment("t", 0, (2,))], keeps_factor=True)
        assert kept.code is ErrorCode.invalid_replication_factor
        assert town.states() == before
        results = await town.controller.reassign(
            [Reassignment("t", 0, (2, 3)), Reassignment("t", 1, (7,))], keeps_factor=True
        )
        assert [each.code for each in results] == [ErrorCode.none, assignment]
        assert town.state("t").is_moving
        assert not town.state("t", 1).is_moving

    in_town(scenario)


def test_a_broker_that_is_full_gets_no_more() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0], [1])
        town.controller._partitions_max = 1
        assert await move(town, (1,)) is ErrorCode.policy_violation
        assert await move(town, (2,)) is ErrorCode.none

    in_town(scenario)


def test_a_move_is_taken_back_and_aimed_elsewhere() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1, 2])
        assert await move(town, (2, 3)) is ErrorCode.none
        await catch_up(town, 3)
        await town.until(lambda: not town.state("t").is_moving)
        assert town.state("t").replicas == (2, 3)
        assert await move(town, (1, 0)) is ErrorCode.none
        await catch_up(town, 1)
        assert await move(town, (0,)) is ErrorCode.none
        assert town.state("t").replicas == (0, 2, 3)
        assert await move(town, None) is ErrorCode.none
        state = town.state("t")
        assert (state.replicas, set(state.isr), state.is_moving) == ((2, 3), {2, 3}, False)
        await town.settle()

    in_town(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_the_next_controller_goes_on(seed: int) -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2])
        assert await move(town, (3, 2)) is ErrorCode.none
        await town.settle()
        town.kill(0)
        # Written while nobody holds the office.
        state = town.state("t")
        await town.brokers[1].alter_isr(topic_of(town, 1, "t"), 0, state, (3, 2, 1))
        assert town.state("t").is_moving
        await town.until(lambda: not town.state("t").is_moving)
        assert town.state("t").replicas == (3, 2)
        assert town.state("t").leader in (3, 2)
        await town.settle()

    in_town(scenario, seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_controller_that_dies_in_mid_decision_leaves_it_done_or_not(seed: int) -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2], [2, 1], [1, 0])
        await town.settle()
        wanted = [Reassignment("t", n, (3, 2)) for n in range(3)]
        asked = asyncio.ensure_future(town.controller.reassign(wanted))
        await asyncio.sleep(0.002 * seed)
        town.kill(0)
        await asyncio.gather(asked, return_exceptions=True)
        await town.settle()
        moving = {town.state("t", n).is_moving for n in range(3)}
        assert len(moving) == 1, "all of one request, or none"
        node = json.loads(town.ensemble.below("/")[layout.topic_path("t")].data)
        told = {n: tuple(node["partitions"][str(n)]) for n in range(3)}
        assert told == {n: town.state("t", n).replicas for n in range(3)}

    in_town(scenario, seed)


def test_an_isr_that_is_written_meanwhile_is_not_lost_and_not_believed() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [1, 2])
        await town.settle()
        known = town.state("t")
        topic = topic_of(town, 1, "t")
        assert await move(town, (1, 3)) is ErrorCode.none
        with pytest.raises(StateChangedError) as told:
            await town.brokers[1].alter_isr(topic, 0, known, (1,))
        assert told.value.actual == town.state("t")
        assert told.value.actual.replicas == (1, 3, 2)

    in_town(scenario)


def test_a_move_waits_for_a_broker_that_is_gone_and_ends_with_it() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1])
        await move(town, (0, 3))
        await town.settle()
        town.kill(3)
        await town.settle()
        assert town.state("t").is_moving
        await town.start(3)
        await catch_up(town, 3)
        await town.until(lambda: town.state("t").replicas == (0, 3))
        town.kill(1)
        await town.settle()

    in_town(scenario)


def test_a_topic_grows_and_goes_while_it_is_moved() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1])
        await move(town, (2, 3))
        (grown,) = await town.controller.create_partitions([NewPartitions("t", 2)])
        assert grown.code is ErrorCode.none
        assert len(town.state("t", 1).replicas) == 2, "as many as it shall have, not has"
        assert town.state("t").adding == (2, 3)
        node = json.loads(town.ensemble.below("/")[layout.topic_path("t")].data)
        assert node["adding_replicas"] == {"0": [2, 3]}
        await town.controller.delete_topics(["t"])
        await town.settle()
        assert not town.states()

    in_town(scenario)


def test_thousands_of_partitions_are_moved_in_pieces() -> None:
    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", *([0] for _ in range(600)))
        wanted = [Reassignment("t", n, (1,)) for n in range(600)]
        results = await town.controller.reassign(wanted)
        assert {each.code for each in results} == {ErrorCode.none}
        assert all(state.adding == (1,) for state in town.states().values())
        await town.settle()

    in_town(scenario)


def test_brokers_that_missed_everything_read_it_in_one_piece() -> None:
    """The topic's node and the state are read one after the other."""

    async def scenario(town: Town) -> None:
        await town.start(*ALL)
        await town.create("t", [0, 1])
        await town.settle()
        town.ensemble.kill(machine(3))
        town.brokers.pop(3).abandon()
        for target in ((2, 0), (1, 2), (0, 1)):
            await move(town, target)
        await town.start(3)
        await town.settle()
        assert topic_of(town, 3, "t").partitions[0] == town.state("t")

    in_town(scenario)
