"""One seed, one story: a cluster starts, is written to and read, suffers, heals, and is checked."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.client import Client
from barnabas.sim.cluster.consumers import CopyReader, Reader
from barnabas.sim.cluster.copier import Copier
from barnabas.sim.cluster.groups import Committer
from barnabas.sim.cluster.invariants import Invariants
from barnabas.sim.cluster.ledger import Ledger
from barnabas.sim.cluster.machine import PORT, Machine
from barnabas.sim.cluster.moves import Mover, draw_moves
from barnabas.sim.cluster.nemesis import STORE, Nemesis
from barnabas.sim.cluster.plan import Fault
from barnabas.sim.cluster.producers import Producer
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.cluster.trust import Trust
from barnabas.sim.cluster.truth import BrokenPromiseError, demand
from barnabas.sim.loop import SimLoop, UnhandledError
from barnabas.sim.network import on_machine
from barnabas.sim.zookeeper import Ensemble

TOPIC: Final = "t"
COPY: Final = "copy"
EVENTS_MIN: Final = 20_000
_CONVERGE_S: Final = 120.0
"""How long a healed cluster may take until everything is everywhere."""
_LOOK_S: Final = 0.25
"""How long a failure may go unnoticed where nobody waits for what has failed."""


@dataclass(slots=True)
class Report:
    """What came of a seed."""

    seed: int | str
    events: int = 0
    virtual_s: float = 0.0
    crashes: int = 0
    partitions: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    read: int = 0
    read_nearby: int = 0
    elections: int = 0
    moves: int = 0
    """How often a partition had other replicas than before."""
    digest: str = ""
    errors: dict[str, int] = field(default_factory=dict)
    gave_up: list[str] = field(default_factory=list)


class Story:
    """Everything of one simulation."""

    def __init__(self, loop: SimLoop, seed: int | str, settings: Settings) -> None:
        self.loop = loop
        self.seed = seed
        self.settings = settings
        self.ledger = Ledger()
        self.trust = Trust(synced=settings.synced)
        self.ensemble = Ensemble(loop, machine=STORE, session_timeout_s=settings.session_s)
        self.machines = [
            Machine(loop, self.ensemble, seed, number, settings)
            for number in range(1, settings.brokers + 1)
        ]
        self.invariants = Invariants(self.machines, self.ledger, self.trust, loop.time)
        self.nemesis = Nemesis(loop, self.ensemble, self.machines, self.trust, self.invariants)
        self.producers: list[Producer | Committer | Copier] = []
        self.readers: list[Reader] = []
        self.mover = Mover(self._client("m"), self.invariants.stored.states, loop.time)
        self._tasks: list[asyncio.Task[Any]] = []
        for machine in self.machines:
            machine.on_end = self.invariants.ended
        loop.after_event = self.invariants.after_event
        self.ensemble.on_commit(self.invariants.stored.committed)

    async def tell(self, plan: Sequence[Fault]) -> None:
        """From the first start to the last check."""
        for machine in self.machines:
            machine.start()
        await self._until(self._all_started, "Liveness", "brokers that never came up")
        admin = self._client("admin")
        with on_machine("c"):
            await admin.create_topic(TOPIC, self.settings.partitions, {})
            await admin.create_topic(COPY, 1, {})
            self._start_clients()
        await asyncio.sleep(2)
        self._set_weather(bad=True)
        self.nemesis.schedule(plan)
        moving = self.loop.create_task(self.mover.run(draw_moves(self.seed, self.settings)))
        self._tasks.append(moving)
        end_s = self.loop.time() + self.settings.faults_s
        while self.loop.time() < end_s or self.loop.events < EVENTS_MIN:
            await asyncio.sleep(_LOOK_S)
            self._look_for_the_dead()
        self._set_weather(bad=False)
        self.mover.wanted = False
        self.nemesis.heal()
        await self._converge()

    def _client(self, name: str) -> Client:
        brokers = {each.number: (each.name, PORT) for each in self.machines}
        return Client("c", brokers, self.seed, name)

    def _start_clients(self) -> None:
        nearby = self.settings.nearby
        for number in range(self.settings.partitions):
            partition = TopicPartition(TOPIC, number)
            for kind, idempotent in (("i", True), ("p", False)):
                client = self._client(f"{kind}{number}")
                pace_s = client.chance.choice([0.1, 0.3, 0.6]) * self.settings.partitions
                self.producers.append(
                    Producer(client, partition, self.ledger, idempotent=idempotent, pace_s=pace_s)
                )
            self.readers.append(Reader(self._client(f"r{number}"), partition, self.ledger, nearby))
        source, copy = TopicPartition(TOPIC, 0), TopicPartition(COPY, 0)
        self.producers.append(Committer(self._client("g"), source, self.ledger))
        self.copier = Copier(self._client("x"), source, copy, self.ledger)
        self.producers.append(self.copier)
        self.copies = CopyReader(self._client("rx"), copy, source, self.ledger, nearby)
        self.readers.append(self.copies)
        for runner in (*self.producers, *self.readers):
            self._tasks.append(self.loop.create_task(runner.run()))

    def _set_weather(self, *, bad: bool) -> None:
        settings, faults = self.settings, self.ensemble.faults
        self.loop.network.break_chance = settings.break_chance if bad else 0.0
        faults.watch_delay_s = settings.watch_delay_s
        faults.lag_s = settings.zookeeper_lag_s
        faults.break_before = faults.break_after = settings.zookeeper_break if bad else 0.0

    # --- waiting and checking ------------------------------------------------------------------

    def _look_for_the_dead(self) -> None:
        """A client that has failed has found something, or has a mistake of its own."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                task.result()
        for machine in self.machines:
            if machine.mistake is not None:
                raise machine.mistake
        if self.loop.unhandled:
            first = self.loop.unhandled[0]
            why = first.get("exception")
            if isinstance(why, BrokenPromiseError):
                raise why
            raise UnhandledError(f"{first.get('message')}: {why!r}") from why

    async def _until(self, holds: Callable[[], bool], promise: str, words: str) -> None:
        deadline = self.loop.time() + _CONVERGE_S
        while not holds():
            self._look_for_the_dead()
            demand(self.loop.time() < deadline, promise, f"{words}: {self._what_is_missing()}")
            await asyncio.sleep(_LOOK_S)

    def _all_started(self) -> bool:
        return all(machine.started for machine in self.machines)

    async def _converge(self) -> None:
        """Liveness: everything is answered, everybody is in sync, all have all."""
        await self._until(self._all_started, "Liveness", "brokers that do not come back")
        for producer in self.producers:
            producer.wanted = False
        await self._until(self._is_settled, "Liveness", "what does not settle")
        await self._until(self._all_read, "Liveness", "records that can not be read")
        self.invariants.compare_all()
        self._check_promises()

    def _is_settled(self) -> bool:
        return (
            self._all_started()
            and self.mover.idle
            and all(producer.idle for producer in self.producers)
            and not any(self._unsettled())
        )

    def _unsettled(self) -> list[str]:
        missing = []
        for partition, state in self.invariants.stored.states.items():
            if state.is_moving:
                missing.append(f"{partition.directory} is on its way to {state.target}")
            elif set(state.isr) != set(state.replicas):
                missing.append(
                    f"{partition.directory} has the ISR {state.isr}, led by {state.leader}"
                )
            for machine in self.machines:
                wanted = machine.number in state.replicas
                if wanted != any(each.log.partition == partition for each in machine.partitions):
                    missing.append(f"{machine.name} should {'' if wanted else 'not '}have it")
        for machine in self.machines:
            for each in machine.partitions:
                truth = self.ledger.truth(each.log.partition)
                if not truth.end == each.high_watermark == each.log.end_offset:
                    missing.append(
                        f"{machine.name}: {truth} is committed to {each.high_watermark}, ends at "
                        f"{each.log.end_offset}, of {truth.end}"
                    )
        return missing

    def _all_read(self) -> bool:
        return all(
            reader.offset >= self.ledger.truth(reader.partition).end for reader in self.readers
        )

    def _what_is_missing(self) -> str:
        missing = [
            f"{each.name} ({each.gave_up[-1:]})" for each in self.machines if not each.started
        ]
        missing += [
            f"{each.partition.directory} waits for an answer"
            for each in self.producers
            if not each.idle
        ]
        missing += self._unsettled()
        missing += [f"{each.partition.directory} is read to {each.offset}" for each in self.readers]
        return "; ".join(missing)

    def _check_promises(self) -> None:
        demand(
            self.copies.copied == self.copier.position,
            "ExactlyOnce",
            f"{self.copies.copied} records were copied, and the copier has come to "
            f"{self.copier.position}",
        )
        for partition, promised in self.ledger.promised.items():
            values = self.ledger.truth(partition).values
            for offset, value in promised.items():
                if values.get(offset) != value:
                    raise BrokenPromiseError(f"Acknowledged: {value!r} at {offset} is lost")

    def report(self) -> Report:
        """What came of it, so far."""
        return Report(
            self.seed,
            self.loop.events,
            self.loop.time(),
            self.nemesis.crashes,
            self.nemesis.partitions,
            dict(self.nemesis.done),
            self.ledger.acknowledgements,
            self.ledger.records_read,
            self.ledger.read_nearby,
            self.invariants.stored.elections,
            self.invariants.stored.moves,
            self.loop.trace.digest(),
            dict(self.ledger.errors),
            [f"{each.name}: {why}" for each in self.machines for why in each.gave_up],
        )
