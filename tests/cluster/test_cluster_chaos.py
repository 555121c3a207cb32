"""A cluster under random faults: what was committed is kept, and in the end all brokers agree."""

import asyncio
import os
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.cluster.records import Records
from tests.cluster.town import Town, in_town, machine

from barnabas.cluster.configs import AlterOp, ConfigEdit, ConfigResource, IncrementalChange
from barnabas.cluster.mending import leftovers
from barnabas.cluster.topics import NewPartitions, NewTopic
from barnabas.model.errors import BarnabasError, KafkaError
from barnabas.ports.coordination import CoordinationLostError

BROKERS = (0, 1, 2, 3)
SECONDS = 60


class Chaos:
    """What can happen, drawn from a seed.

    Either one broker loses what it wrote whenever it dies, and the others know that they did not;
    or nobody loses anything, and nobody knows.
    """

    def __init__(self, town: Town, seed: int) -> None:
        self.town = town
        self.chance = random.Random(f"chaos/{seed}")
        self.records = Records(town, self.chance)
        self._unlucky = self.chance.choice([None, *BROKERS])
        self._down: dict[int, bool] = {}
        self._busy: set[asyncio.Task[object]] = set()
        self._starting: dict[int, None] = {}
        faults = town.ensemble.faults
        faults.break_before = self.chance.choice([0, 0, 0.01, 0.05])
        faults.break_after = self.chance.choice([0, 0, 0.01, 0.05])
        faults.watch_delay_s = self.chance.choice([0, 0.1, 2.0])
        faults.lag_s = self.chance.choice([0.02, 0.5])

    async def run(self) -> None:
        """Begin, break things for a while, mend everything, and see that all is well."""
        for number in BROKERS:
            await self.town.start(number)
        await self.town.settle()
        await self._administer()
        end = self.town.loop.time() + SECONDS
        while self.town.loop.time() < end:
            await asyncio.sleep(self.chance.uniform(0.01, 0.1))
            self.records.step()
            if self.chance.random() < 0.1:
                self._something_happens()
        await self._mend()

    def _something_happens(self) -> None:
        ensemble = self.town.ensemble
        number = self.chance.choice(BROKERS)
        match self.chance.randrange(12):
            case 0 | 1:
                if number in self.town.brokers and len(self.town.brokers) > 1:
                    self._kill(number)
            case 2:
                if number in self.town.brokers and len(self.town.brokers) > 1:
                    self._begin(self._stop(number))
            case 3 | 4 | 5:
                if self._down:
                    back = self.chance.choice(list(self._down))
                    self._begin(self._start(back, clean=self._down.pop(back)))
            case 6:
                ensemble.expire(machine(number))
            case 7:
                ensemble.cut(machine(number), answers=self.chance.random() < 0.7)
            case 8:
                ensemble.heal(machine(number))
            case 9:
                ensemble.lose_next(machine(number), after=self.chance.random() < 0.5)
            case 10:
                if self.chance.random() < 0.3:
                    ensemble.lose_quorum()
                    later = self.chance.uniform(0.1, 10)
                    self.town.loop.call_later(later, ensemble.regain_quorum)
            case _:
                self._begin(self._administer())

    def _kill(self, number: int) -> None:
        if number in self._starting:
            return
        self.town.kill(number)
        self.records.forget(number)
        if number == self._unlucky:
            self.records.lose_tails(number)
        self._down[number] = self._unlucky not in (None, number)

    async def _stop(self, number: int) -> None:
        cluster = self.town.brokers[number]
        if number in self._starting:
            return
        self._starting[number] = None
        await cluster.leave()
        self.records.forget(number)
        del self.town.brokers[number]
        await cluster.close()
        del self._starting[number]
        self._down[number] = True

    async def _start(self, number: int, *, clean: bool) -> None:
        self._starting[number] = None
        try:
            await self.town.start(number, clean=clean)
            self.records.lossy.pop(number, None)
        except BarnabasError:
            self.town.kill(number)
            self._down[number] = clean
        finally:
            del self._starting[number]

    async def _administer(self) -> None:
        started = [each for each in self.town.brokers.values() if each.is_started]
        if not started:
            return
        cluster = self.chance.choice(started)
        name = self.chance.choice(["a", "b", "c"])
        factor = self.chance.choice([2, 3, 3, 3])
        minimum = {"min.insync.replicas": str(min(factor, 2))}
        limit = ConfigEdit("retention.ms", AlterOp.SET, str(self.chance.randint(1, 99)))
        try:
            match self.chance.randrange(8):
                case 0 | 1 | 2 | 3:
                    await cluster.create_topics([NewTopic(name, 2, factor, configs=minimum)])
                case 4:
                    await cluster.delete_topics([name])
                case 5:
                    await cluster.create_partitions([NewPartitions(name, 4)])
                case 6:
                    change = IncrementalChange(ConfigResource(2, name), [limit])
                    await cluster.incremental_alter_configs([change])
                case _:
                    await cluster.elect_leaders(None)
        except (KafkaError, CoordinationLostError, KeyError):
            return

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _mend(self) -> None:
        ensemble = self.town.ensemble
        ensemble.faults.break_before = ensemble.faults.break_after = 0
        ensemble.faults.watch_delay_s = 0
        ensemble.faults.lag_s = 0.02
        ensemble.regain_quorum()
        for number in BROKERS:
            ensemble.heal(machine(number))
        while self._busy:
            await asyncio.wait(list(self._busy))
        for number in BROKERS:
            if number not in self.town.brokers:
                await self._start(number, clean=self._down.pop(number))
        deadline = self.town.loop.time() + 120
        while not self._is_whole():
            assert self.town.loop.time() < deadline, self.town.states()
            await asyncio.sleep(0.2)
            self.records.step()
        await self.town.settle()
        self.records.check()
        assert leftovers(ensemble.below("/")) == []
        assert self.town.watchman.unclean == []
        assert self.town.failures == {number: [] for number in BROKERS}

    def _is_whole(self) -> bool:
        return all(
            state.leader != -1 and set(state.isr) == set(state.replicas)
            for state in self.town.states().values()
        )


@pytest.mark.parametrize(
    "seed", range(int(os.environ.get("CHAOS_FROM", "0")), int(os.environ.get("CHAOS_TO", "30")))
)
def test_what_was_committed_is_kept_and_all_agree_in_the_end(seed: int) -> None:
    async def scenario(town: Town) -> None:
        await Chaos(town, seed).run()

    in_town(scenario, seed)
