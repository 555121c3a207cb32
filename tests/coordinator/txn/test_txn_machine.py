"""Producers, zombies, lost answers, failing markers, new coordinators, time: in any order."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.coordinator.txn.bureau import WALL_MS, A, B, Bureau, Kept
from tests.coordinator.txn.history import (
    check_history,
    has_decision,
    has_owner,
    histories,
)

from barnabas.coordinator.txn.asks import TransactionState
from barnabas.coordinator.txn.transaction import EPOCH_MAX, Transaction
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    NOBODY,
    Marker,
    ProducerIdentity,
)
from barnabas.sim.loop import SimLoop

NAMES = st.sampled_from(["new", "old"])
PARTITIONS = st.sampled_from([A, B])
VERSIONS = st.sampled_from([0, 2])
CHOICES = st.integers(0, 1000)

EXPECTED = {
    ErrorCode.concurrent_transactions,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.invalid_txn_state,
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_load_in_progress,
}
TROUBLE = [
    ErrorCode.none,
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.request_timed_out,
]
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
    "transactional.id.expiration.ms": "100000",
}
LONG_S = 120.0
"""After so long without trouble everything must be over, the last timeouts included."""


class TransactionMachine(RuleBasedStateMachine):
    """What was acknowledged is held against the log and against the partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=lambda: SimLoop(seed=1))
        self.runner.run(self._begin())
        self.known = [("new", ProducerIdentity(1, 0)), ("old", ProducerIdentity(7, EPOCH_MAX - 3))]
        self.asking: list[asyncio.Task[None]] = []

    async def _begin(self) -> None:
        self.bureau = Bureau(SETTINGS)
        self.bureau.partitions.watch = self._marked
        self.bureau.store(
            Transaction(
                transactional_id="old",
                producer_id=7,
                epoch=EPOCH_MAX - 3,
                timeout_ms=10_000,
                state=TransactionState.EMPTY,
                last_update_ms=WALL_MS,
            )
        )
        await self.bureau.elect()

    def _ask(self, asking: Coroutine[Any, Any, None]) -> None:
        async def ask() -> None:
            self.asking.append(asyncio.create_task(_expected(asking)))
            await asyncio.sleep(0.001)

        self.runner.run(ask())
        self._look_at_answers()

    def _look_at_answers(self) -> None:
        for task in [each for each in self.asking if each.done()]:
            self.asking.remove(task)
            task.result()

    def _one(self, choice: int) -> tuple[str, ProducerIdentity]:
        """Mostly somebody who has been somebody lately."""
        return self.known[-1 - min(choice % 5, len(self.known) - 1)]

    # --- requests ------------------------------------------------------------------------------

    @rule(name=NAMES, timeout_s=st.integers(1, 60), lost=st.booleans())
    def init(self, name: str, timeout_s: int, lost: bool) -> None:
        self._ask(self._init(name, NOBODY, timeout_s, lost))

    @rule(choice=CHOICES, timeout_s=st.integers(1, 60), lost=st.booleans())
    def init_again(self, choice: int, timeout_s: int, lost: bool) -> None:
        name, claimed = self._one(choice)
        self._ask(self._init(name, claimed, timeout_s, lost))

    async def _init(self, name: str, claimed: ProducerIdentity, timeout_s: int, lost: bool) -> None:
        me = await self.bureau.init(name, claimed, timeout_s * 1000)
        assert has_owner(self._history(name), me)
        if not lost:
            self.known.append((name, me))

    @rule(choice=CHOICES, partition=PARTITIONS, version=VERSIONS)
    def write(self, choice: int, partition: TopicPartition, version: int) -> None:
        self._ask(self._write(*self._one(choice), partition, version))

    async def _write(
        self, name: str, me: ProducerIdentity, partition: TopicPartition, version: int
    ) -> None:
        """A batch is taken unless a marker came while the coordinator was asked, or the topic has
        gone."""
        cluster = self.bureau.cluster
        topic = cluster.image.topics.get(partition.topic)
        written = len(self.bureau.partitions.written)
        await self.bureau.add(me, partition, name=name, version=version)
        assert any(
            each is not None and each.producer == me and partition in each.partitions
            for each in self._history(name)
        )
        is_there = topic is not None and cluster.image.topics.get(partition.topic) is topic
        if is_there and len(self.bureau.partitions.written) == written:
            self.bureau.partitions.append(partition, me)

    @rule(choice=CHOICES, committed=st.booleans(), version=VERSIONS, lost=st.booleans())
    def end(self, choice: int, committed: bool, version: int, lost: bool) -> None:
        name, me = self._one(choice)
        self._ask(self._end(name, me, committed, version, lost))

    async def _end(
        self, name: str, me: ProducerIdentity, committed: bool, version: int, lost: bool
    ) -> None:
        following = await self.bureau.end(me, committed=committed, name=name, version=version)
        history = self._history(name)
        assert has_decision(history, me, committed, version) or (
            # A classic producer may ask again about what another generation has ended.
            version < BUMPED_TRANSACTIONS and has_owner(history, me)
        )
        if version >= BUMPED_TRANSACTIONS and not lost:
            self.known.append((name, following))

    @rule(name=NAMES, partitions=st.sets(PARTITIONS), committed=st.booleans(), version=VERSIONS)
    def work(
        self, name: str, partitions: set[TopicPartition], committed: bool, version: int
    ) -> None:
        """What most producers do, from the beginning to the end."""
        self._ask(self._work(name, partitions, committed, version))

    async def _work(
        self, name: str, partitions: set[TopicPartition], committed: bool, version: int
    ) -> None:
        owners = len(self.known)
        await self._init(name, NOBODY, 30, lost=False)
        _, me = self.known[owners]
        for partition in sorted(partitions):
            await self._write(name, me, partition, version)
        await self._end(name, me, committed, version, lost=False)

    # --- trouble -------------------------------------------------------------------------------

    @rule(seed=st.integers(0, 2**16), share=st.sampled_from([0.0, 0.3, 0.9]))
    def markers_fail(self, seed: int, share: float) -> None:
        chance = random.Random(seed)
        partitions = self.bureau.partitions
        partitions.trouble = lambda _: (
            chance.choice(TROUBLE) if chance.random() < share else ErrorCode.none
        )
        partitions.lost_answers = lambda _: chance.random() < share
        partitions.slowness_s = lambda: chance.random() * 5 if chance.random() < share else 0.0

    @rule(held=st.sampled_from([True, False, False]))
    def commits_are_held(self, held: bool) -> None:
        self.bureau.log.hold = held
        if not held:
            self._at_once(self.bureau.log.release)

    @precondition(lambda self: self.bureau.log.held)
    @rule()
    def commits_are_lost(self) -> None:
        self._at_once(self.bureau.log.lose)

    @rule(seconds=st.sampled_from([0.1, 5.0]))
    def the_disk_is_full(self, seconds: float) -> None:
        self.bureau.log.refuses = True
        self.time_passes(seconds)
        self.bureau.log.refuses = False

    @rule(seconds=st.sampled_from([0.1, 5.0]))
    def producer_ids_are_scarce(self, seconds: float) -> None:
        self.bureau.id_trouble = KafkaError(ErrorCode.coordinator_load_in_progress)
        self.time_passes(seconds)
        self.bureau.id_trouble = None

    @rule(lossy=st.booleans())
    def a_new_coordinator(self, lossy: bool) -> None:
        log = self.bureau.log

        def elect() -> None:
            log.lose() if lossy else log.release()
            log.leader_epoch += 1
            self.bureau.coordinator.elect(0, log)

        self._at_once(elect)

    @rule(name=st.sampled_from(["a", "b"]))
    def a_topic_comes_or_goes(self, name: str) -> None:
        if name not in self.bureau.cluster.image.topics:
            self.bureau.cluster.create(name)
            return
        self._at_once(lambda: self.bureau.delete_topic(name))
        kept = self.bureau.partitions.kept
        for key in [key for key in kept if key[0].topic == name]:
            del kept[key]

    @rule(seconds=st.sampled_from([0.05, 1.0, 10.0, 70.0, 150.0]))
    def time_passes(self, seconds: float) -> None:
        self.runner.run(asyncio.sleep(seconds))
        self._look_at_answers()

    def _at_once(self, do: Callable[[], None]) -> None:
        async def done() -> None:
            do()
            await asyncio.sleep(0.001)

        self.runner.run(done())
        self._look_at_answers()

    # --- what must hold ------------------------------------------------------------------------

    def _history(self, name: str) -> list[Transaction | None]:
        return histories(self.bureau.stored()).get(name, [])

    def _marked(self, marker: Marker, partition: TopicPartition, kept: Kept | None) -> None:
        """A marker that ends an open transaction stands for what was decided about that one."""
        if kept is None or kept.open_epoch is None:
            return
        owners = [
            each
            for each in self.bureau.stored()
            if isinstance(each, Transaction) and each.producer_id == marker.producer_id
        ]
        last = owners[-1]
        assert last.is_ending, "nothing is being ended"
        assert (last.state is TransactionState.PREPARE_COMMIT) is marker.committed
        assert last.epoch == marker.epoch
        assert partition in last.partitions

    @invariant()
    def every_step_in_the_log_is_allowed(self) -> None:
        for history in histories(self.bureau.stored()).values():
            check_history(history)

    @invariant()
    def nothing_is_open_of_what_is_over(self) -> None:
        for history in histories(self.bureau.stored()).values():
            if history[-1] is not None and not history[-1].is_idle:
                continue
            for each in history:
                for partition in (A, B):
                    assert each is None or not self.bureau.partitions.is_open(
                        partition, each.producer_id
                    )

    def teardown(self) -> None:
        log, partitions = self.bureau.log, self.bureau.partitions
        log.hold = False
        partitions.trouble = lambda _: ErrorCode.none
        partitions.lost_answers = lambda _: False
        partitions.slowness_s = lambda: 0.0
        self._at_once(log.release)
        self.time_passes(LONG_S)
        try:
            assert not self.asking, "somebody was never answered"
            for history in histories(self.bureau.stored()).values():
                assert history[-1] is None or history[-1].is_idle, "it never ends"
            self.nothing_is_open_of_what_is_over()
        finally:
            self._at_once(self.bureau.coordinator.close)
            loop = self.runner.get_loop()
            self.runner.close()
        assert isinstance(loop, SimLoop)
        assert not loop.unhandled, loop.unhandled


async def _expected(asking: Coroutine[Any, Any, None]) -> None:
    try:
        await asking
    except KafkaError as error:
        assert error.code in EXPECTED  # noqa: PT017


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
