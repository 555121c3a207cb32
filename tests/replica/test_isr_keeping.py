"""Who writes ISRs, what is believed while the outcome is unknown, and what is done again."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.replica.exchange import TOPIC_ID, Replica, state

from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import BrokerNode, PartitionState, Topic
from barnabas.config.topic_config import TopicConfig
from barnabas.log.store import LogStore
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.coordination import CoordinationError, CoordinationLostError, NoNodeError
from barnabas.replica.isr_keeping import IsrKeeping
from barnabas.replica.service import HostedTopic, Replicas
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.world.memory import MemoryFiles

LAG_S = 30.0
Outcome = str | Exception


class VersionedStore:
    """One partition's state, compared by version; answers come, or get lost."""

    def __init__(self, stored: PartitionState) -> None:
        self.stored = stored
        self.plan: list[Outcome] = []
        """What becomes of the next writes: `lost before`, `lost after`, or an error."""
        self.asked: list[tuple[tuple[int, ...], Mapping[int, int]]] = []
        self.gate: asyncio.Event | None = None

    async def alter_isr(
        self,
        topic: Topic,
        number: int,
        state: PartitionState,
        isr: tuple[int, ...],
        *,
        fetched_as: Mapping[int, int],
    ) -> PartitionState:
        assert (topic.id, number) == (TOPIC_ID, 0)
        self.asked.append((isr, dict(fetched_as)))
        outcome: Outcome = self.plan.pop(0) if self.plan else "done"
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(outcome, Exception):
            raise outcome
        if outcome == "lost before":
            raise CoordinationLostError("no answer")
        if state.partition_epoch != self.stored.partition_epoch:
            raise StateChangedError(self.stored)
        version = state.partition_epoch + 1
        self.stored = replace(self.stored, isr=isr, partition_epoch=version, eligible=())
        if outcome == "lost after":
            raise CoordinationLostError("no answer")
        return self.stored


class Scene:
    """A leader with two followers, of which the third is in the ISR or not."""

    def __init__(
        self, loop: SimLoop, isr: tuple[int, ...] = (1, 2), config: TopicConfig | None = None
    ) -> None:
        begin = PartitionState(1, 0, (1, 2, 3), isr, 0)
        self.loop = loop
        self.leader = Replica(loop, 1, begin, config)
        self.partition = self.leader.partition
        self.store = VersionedStore(begin)
        clock = SimClock(loop)
        logs = LogStore(MemoryFiles(), "data", clock, SimEntropy(1))
        self.replicas = Replicas(logs, SimWork(loop, 1), pytest.fail, 1)
        topic = Topic("events", TOPIC_ID, (begin,), {}, TopicConfig())
        self.replicas.by_name["events"] = HostedTopic(topic, 1, {0: self.partition})
        self.lives = {2: 7, 3: 7}
        self.keeping = IsrKeeping(self.store, self.replicas, self.nodes, lambda: LAG_S)
        self.partition.progressed = self.keeping.progressed

    def nodes(self) -> dict[int, BrokerNode]:
        return {each: BrokerNode(each, "h", 1, epoch=life) for each, life in self.lives.items()}

    def fetch(self, broker: int, offset: int) -> None:
        self.partition.record_fetch(broker, self.lives[broker], offset, self.loop.time())

    def isr(self) -> tuple[int, ...]:
        assert self.partition.in_sync is not None
        return self.partition.in_sync.state.isr

    def maximal(self) -> tuple[int, ...]:
        assert self.partition.in_sync is not None
        return self.partition.in_sync.maximal


def play(
    scene: Callable[[Scene], Any],
    isr: tuple[int, ...] = (1, 2),
    config: TopicConfig | None = None,
) -> None:
    async def main(loop: SimLoop) -> None:
        stage = Scene(loop, isr, config)
        await scene(stage)
        await stage.keeping.close()

    run(main, 0)


def test_a_follower_that_has_caught_up_joins_in_the_life_it_caught_up_in() -> None:
    async def scene(stage: Scene) -> None:
        stage.leader.append(b"a")
        stage.fetch(2, 1)
        stage.fetch(3, 0)
        await asyncio.sleep(1)
        assert stage.isr() == (1, 2)
        stage.fetch(3, 1)
        await asyncio.sleep(1)
        assert stage.isr() == stage.store.stored.isr == (1, 2, 3)
        assert stage.store.asked == [((1, 2, 3), {3: 7})]

    play(scene)


def test_a_follower_that_lags_goes_and_what_waited_for_it_is_committed() -> None:
    async def scene(stage: Scene) -> None:
        stage.keeping.start()
        waiting = stage.leader.append(b"a", everywhere=True)
        for _ in range(4):
            await asyncio.sleep(LAG_S / 2)
            stage.fetch(2, 1)
        assert stage.isr() == stage.store.stored.isr == (1, 2)
        assert waiting.done()

    play(scene, (1, 2, 3))


def test_who_is_not_heard_of_stays_outside() -> None:
    """With too few in sync nothing is committed, so whoever left still has all that is. But as a
    member he would only keep producers waiting for what he does not fetch."""

    async def scene(stage: Scene) -> None:
        stage.keeping.start()
        stage.fetch(2, 0)
        stage.leader.append(b"a")
        await asyncio.sleep(LAG_S * 10)
        assert stage.isr() == (1,)
        assert stage.store.asked == [((1,), {})]
        stage.fetch(2, 0)
        await asyncio.sleep(1)
        assert stage.isr() == (1, 2)

    play(scene, config=TopicConfig(min_insync_replicas=2))


def test_who_needs_nobody_else_says_that_nobody_else_is_eligible() -> None:
    """Brokers that were started with different minimums would wait for ever."""

    async def scene(stage: Scene) -> None:
        alone = replace(stage.store.stored, isr=(1,), eligible=(2,), partition_epoch=1)
        stage.store.stored = alone
        stage.partition.assume(1, alone, 0.0)
        stage.leader.append(b"a")
        assert stage.partition.high_watermark == 0
        stage.keeping.start()
        await asyncio.sleep(LAG_S)
        assert (stage.store.stored.isr, stage.store.stored.eligible) == ((1,), ())
        assert stage.partition.high_watermark == 1

    play(scene)


def test_who_turns_followers_away_does_not_call_them_late() -> None:
    """Out of touch with the store for longer than followers may lag, and then back."""

    async def scene(stage: Scene) -> None:
        stage.keeping.start()
        stage.fetch(2, 0)
        stage.leader.append(b"a")
        stage.partition._lease.is_held = False
        await asyncio.sleep(LAG_S * 3)
        stage.partition._lease.is_held = True
        stage.partition.lease_regained(stage.loop.time())
        await asyncio.sleep(LAG_S / 2)
        assert stage.store.asked == []
        await asyncio.sleep(LAG_S * 2)
        assert stage.isr() == (1,)

    play(scene)


def test_while_an_answer_is_missing_both_isrs_count() -> None:
    async def scene(stage: Scene) -> None:
        stage.store.gate = asyncio.Event()
        stage.fetch(3, 0)
        stage.fetch(2, 0)
        await asyncio.sleep(1)
        waiting = stage.leader.append(b"a", everywhere=True)
        stage.fetch(2, 1)
        assert not waiting.done()
        stage.fetch(3, 1)
        assert waiting.done()
        stage.store.gate.set()
        await asyncio.sleep(1)
        assert stage.isr() == (1, 2, 3)

    play(scene)


@pytest.mark.parametrize("outcome", ["lost before", "lost after"])
def test_an_unknown_outcome_is_found_out(outcome: str) -> None:
    async def scene(stage: Scene) -> None:
        stage.store.plan = [outcome, "lost before", outcome]
        stage.fetch(3, 0)
        await asyncio.sleep(0.3)
        assert stage.maximal() == (1, 2, 3)
        await asyncio.sleep(5)
        assert stage.isr() == stage.maximal() == stage.store.stored.isr == (1, 2, 3)

    play(scene)


@pytest.mark.parametrize(
    "error",
    [NoNodeError("gone"), CoordinationError("no"), KafkaError(ErrorCode.ineligible_replica)],
)
def test_a_refusal_ends_it_and_it_can_be_tried_again(error: Exception) -> None:
    async def scene(stage: Scene) -> None:
        stage.store.plan = [error]
        stage.fetch(3, 0)
        await asyncio.sleep(1)
        assert stage.isr() == stage.maximal() == (1, 2)
        stage.fetch(3, 0)
        await asyncio.sleep(1)
        assert stage.isr() == (1, 2, 3)

    play(scene)


def test_a_refusal_after_an_unknown_outcome_tells_nothing_of_the_first() -> None:
    """It may be on its way still. So what is there is written once more, which overtakes it."""

    async def scene(stage: Scene) -> None:
        stage.store.plan = ["lost before", KafkaError(ErrorCode.ineligible_replica)]
        stage.fetch(3, 0)
        await asyncio.sleep(0.6)
        assert stage.maximal() == (1, 2, 3)
        await asyncio.sleep(5)
        assert stage.maximal() == (1, 2)
        assert stage.store.stored.partition_epoch == 1
        assert [isr for isr, _ in stage.store.asked] == [(1, 2, 3), (1, 2, 3), (1, 2)]

    play(scene)


def test_a_defect_leaves_both_isrs_in_force_until_it_is_tried_again() -> None:
    async def scene(stage: Scene) -> None:
        stage.keeping.start()
        stage.store.plan = [RuntimeError("a defect")]
        stage.fetch(3, 0)
        await asyncio.sleep(1)
        assert stage.maximal() == (1, 2, 3)
        await asyncio.sleep(LAG_S)
        assert stage.isr() == stage.store.stored.isr == (1, 2, 3)

    play(scene)


def test_what_the_controller_wrote_meanwhile_counts() -> None:
    async def scene(stage: Scene) -> None:
        stage.store.stored = replace(stage.store.stored, isr=(1,), partition_epoch=1)
        stage.fetch(3, 0)
        await asyncio.sleep(1)
        assert stage.isr() == (1,)

    play(scene)


def test_news_that_overtake_the_answer_are_not_forgotten() -> None:
    async def scene(stage: Scene) -> None:
        stage.store.gate = asyncio.Event()
        stage.fetch(3, 0)
        await asyncio.sleep(1)
        later = replace(stage.store.stored, isr=(1, 3), partition_epoch=2)
        stage.leader.assume(later)
        assert stage.isr() == (1, 2)
        stage.store.gate.set()
        await asyncio.sleep(1)
        assert stage.isr() == (1, 3)

    play(scene)


def test_news_that_overtake_a_refusal_are_not_forgotten() -> None:
    """A move begins meanwhile: who is added would be turned away for as long as nothing else is
    written."""

    async def scene(stage: Scene) -> None:
        stage.store.gate = asyncio.Event()
        stage.store.plan = [KafkaError(ErrorCode.ineligible_replica, "another life")]
        stage.fetch(3, 0)
        await asyncio.sleep(1)
        moving = replace(
            stage.store.stored,
            replicas=(1, 2, 3, 4),
            adding=(4,),
            original=(1, 2, 3),
            partition_epoch=1,
        )
        stage.leader.assume(moving)
        assert not stage.partition.has_follower(4)
        stage.store.gate.set()
        await asyncio.sleep(1)
        assert stage.partition.has_follower(4)
        assert stage.isr() == stage.maximal() == (1, 2)

    play(scene)


def test_another_epoch_ends_a_write_without_a_word() -> None:
    async def scene(stage: Scene) -> None:
        stage.store.plan = ["lost after"] * 3
        stage.fetch(3, 0)
        await asyncio.sleep(0.1)
        stage.leader.assume(state(2, 1, (2, 3), 5, replicas=(1, 2, 3)))
        await asyncio.sleep(5)
        assert stage.partition.in_sync is None
        assert len(stage.store.asked) == 1

    play(scene)


def test_a_topic_that_is_gone_is_asked_about_no_more() -> None:
    async def scene(stage: Scene) -> None:
        stage.store.plan = ["lost before"] * 100
        stage.fetch(3, 0)
        await asyncio.sleep(0.1)
        del stage.replicas.by_name["events"]
        await asyncio.sleep(5)
        assert len(stage.store.asked) == 1

    play(scene)
