"""Records as numbers in lists: just enough of replication to see whether the cluster's decisions
keep what was committed.

Leaders append and commit, followers copy their leader's list whole, leaders change their ISR. The
rules are those of the replica room: progress counts in one leader epoch, the maximal ISR commits,
nothing is committed below `min.insync.replicas` or while somebody is eligible.
"""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.cluster.town import Town

from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import PartitionState, Topic
from barnabas.cluster.service import Cluster
from barnabas.model.errors import KafkaError
from barnabas.ports.coordination import CoordinationLostError

Key = tuple[bytes, int]
"""A partition, by its topic's id and its number."""


@dataclass
class Leadership:
    """What a leader knows in one epoch."""

    epoch: int
    progress: dict[int, tuple[int, int]] = field(default_factory=dict)
    """How many records each follower had, and under which broker epoch it said so."""
    proposed: tuple[PartitionState, tuple[int, ...]] | None = None
    busy: bool = False


class Records:
    """The logs of all brokers, and what was committed."""

    def __init__(self, town: Town, chance: random.Random) -> None:
        self._town = town
        self._chance = chance
        self._logs: dict[tuple[int, Key], list[int]] = {}
        self._led: dict[tuple[int, Key], Leadership] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._made = 0
        self.committed: dict[Key, list[int]] = {}
        self.lossy: dict[int, None] = {}
        """Brokers that have lost records and did not say so yet."""
        self.commits = 0

    def log(self, broker: int, key: Key) -> list[int]:
        return self._logs.setdefault((broker, key), [])

    def lose_tails(self, broker: int) -> None:
        """Power fails: what was written last is gone."""
        self.lossy[broker] = None
        for (owner, _), log in self._logs.items():
            if owner == broker:
                del log[self._chance.randint(0, len(log)) :]

    def forget(self, broker: int) -> None:
        """The process is gone, and with it what it knew as a leader."""
        for owner, key in [each for each in self._led if each[0] == broker]:
            del self._led[owner, key]

    def step(self) -> None:
        """Everybody does a little."""
        for number, cluster in list(self._town.brokers.items()):
            if not cluster.is_started:
                continue
            for topic, key, state in _partitions(cluster):
                if state.leader == number:
                    self._lead(number, cluster, topic, key, state)
                elif number in state.replicas and self._chance.random() < 0.5:
                    self._follow(number, cluster, topic, key, state)
        self.check()

    def check(self) -> None:
        """Whoever is said to be in sync, or eligible, has all that was committed."""
        for topic in self._town.stored().topics.values():
            for number, state in enumerate(topic.partitions):
                known = self.committed.get((topic.id_bytes, number), [])
                for broker in (*state.isr, *state.eligible):
                    if broker not in self.lossy:
                        log = self.log(broker, (topic.id_bytes, number))
                        assert log[: len(known)] == known, (
                            f"{topic.name}-{number}: broker {broker} lacks what was committed: "
                            f"{known} against {log}, {state}"
                        )

    def _follow(
        self, number: int, cluster: Cluster, topic: Topic, key: Key, state: PartitionState
    ) -> None:
        leader = self._town.brokers.get(state.leader)
        if leader is None or not leader.is_started:
            return
        there = leader.image.topics.get(topic.name)
        if there is None or there.id != topic.id:
            return
        led = self._led.get((state.leader, key))
        if led is None or led.epoch != state.leader_epoch:
            return
        if there.partitions[key[1]].leader_epoch != led.epoch:
            return
        log = self._logs[number, key] = list(self.log(state.leader, key))
        led.progress[number] = (len(log), cluster.broker_epoch)

    def _lead(
        self, number: int, cluster: Cluster, topic: Topic, key: Key, state: PartitionState
    ) -> None:
        led = self._led.get((number, key))
        if led is None or led.epoch != state.leader_epoch:
            led = self._led[number, key] = Leadership(state.leader_epoch)
        log = self.log(number, key)
        if self._chance.random() < 0.5:
            self._made += 1
            log.append(self._made)
        if led.proposed and led.proposed[0].partition_epoch < state.partition_epoch:
            led.proposed = None
        self._commit(topic, key, state, led, log)
        if not led.busy and self._chance.random() < 0.3:
            self._change_isr(number, cluster, topic, key, state, led)

    def _commit(
        self, topic: Topic, key: Key, state: PartitionState, led: Leadership, log: list[int]
    ) -> None:
        needed = min(topic.config.min_insync_replicas, len(state.replicas))
        if len(state.isr) < needed or state.eligible:
            return
        maximal = {*state.isr, *(led.proposed[1] if led.proposed else ())} - {state.leader}
        end = min([len(log), *(led.progress.get(each, (0, 0))[0] for each in maximal)])
        known = self.committed.setdefault(key, [])
        if end > len(known):
            assert log[: len(known)] == known, f"{topic.name}: {known} was committed, not {log}"
            self.committed[key] = log[:end]
            self.commits += 1

    def _change_isr(
        self,
        number: int,
        cluster: Cluster,
        topic: Topic,
        key: Key,
        state: PartitionState,
        led: Leadership,
    ) -> None:
        size = len(self.log(number, key))
        caught_up = {
            each: epoch
            for each, (end, epoch) in led.progress.items()
            if end == size
            and each in cluster.image.brokers
            and cluster.image.brokers[each].epoch == epoch
        }
        behind = [each for each in state.isr if each != number and each not in caught_up]
        isr = {*state.isr, *caught_up}
        if behind and self._chance.random() < 0.2:
            isr.discard(self._chance.choice(behind))
        wanted = led.proposed[1] if led.proposed else tuple(sorted(isr))
        if set(wanted) != set(state.isr):
            led.proposed = (state, wanted)
            led.busy = True
            epochs = {each: caught_up.get(each, -1) for each in set(wanted) - set(state.isr)}
            task = asyncio.get_running_loop().create_task(
                self._propose(cluster, topic, key[1], state, led, epochs)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _propose(
        self,
        cluster: Cluster,
        topic: Topic,
        number: int,
        state: PartitionState,
        led: Leadership,
        epochs: dict[int, int],
    ) -> None:
        proposed = led.proposed
        assert proposed is not None
        try:
            await cluster.alter_isr(topic, number, state, proposed[1], fetched_as=epochs)
        except CoordinationLostError:
            return  # It may have been done: the maximal ISR stays in force.
        except (StateChangedError, KafkaError):
            pass
        finally:
            led.busy = False
        if led.proposed is proposed:
            led.proposed = None


def _partitions(cluster: Cluster) -> Iterator[tuple[Topic, Key, PartitionState]]:
    for topic in cluster.image.topics.values():
        for number, state in enumerate(topic.partitions):
            yield topic, (topic.id_bytes, number), state
