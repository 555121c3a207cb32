"""A simulated machine that runs a broker: started, stopped, killed, without power, and again."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Final

from barnabas.broker.broker import Broker
from barnabas.broker.outside import Outside
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.errors import BarnabasError
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.sim.clock import BASE_WALL_MS, SimClock
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop
from barnabas.sim.network import NOWHERE
from barnabas.sim.process import Process
from barnabas.sim.work import SimWork
from barnabas.sim.zookeeper import Ensemble

PORT: Final = 9092
DATA: Final = "data"
_AGAIN_S: Final = 1.0
"""After which somebody starts a broker again that gave up by itself."""


class Machine:
    """One broker's machine: its disk lives on, its processes come and go."""

    def __init__(
        self, loop: SimLoop, ensemble: Ensemble, seed: int | str, number: int, settings: Settings
    ) -> None:
        self.number = number
        self.name = f"b{number}"
        self.settings = settings
        self.process: Process | None = None
        self.broker: Broker | None = None
        """The broker of this life, from before it starts until it has ended."""
        self.started = False
        self.lives = 0
        self.gave_up: list[str] = []
        """Why it ended by itself, each time."""
        self.mistake: BaseException | None = None
        """What it has raised that no broker should."""
        self.on_end: Callable[[Machine], None] = lambda _: None
        self._loop = loop
        self._ensemble = ensemble
        self._seed = seed
        self._chances = Chances(cold=settings.cold)
        self.files = SimFiles(f"{seed}/{self.name}", chances=self._chances, trace=loop.trace)
        drift = random.Random(f"{seed}/{self.name}/drift").choice([0, 0, 600_000, -600_000])
        self._base_wall_ms = BASE_WALL_MS + drift
        self._work: SimWork | None = None
        self._again: asyncio.TimerHandle | None = None
        self._wanted = False
        """Whether somebody has asked for a start since the last stop was asked for."""

    @property
    def runs(self) -> bool:
        """Whether there is a process."""
        return self.process is not None

    @property
    def breaks(self) -> int:
        """How often chance has broken its connection to ZooKeeper."""
        return self._ensemble.breaks(self.name)

    def start(self) -> None:
        """Begin a life, unless there is one."""
        self._wanted = True
        if self.process is not None:
            return
        self._cancel_restart()
        self.lives += 1
        process = self.process = Process(self.name, self.lives)
        self._loop.trace.note(f"start {self.name} {self.lives}")
        with process.inside():
            task = self._loop.create_task(self._live(process))
        task.add_done_callback(self._lived)

    def _lived(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            self.mistake = self.mistake or task.exception()

    async def _live(self, process: Process) -> None:
        """The main function of a broker's process."""
        seed = f"{self._seed}/{self.name}/{process.number}"
        clock = SimClock(self._loop, self._base_wall_ms)
        work = self._work = SimWork(self._loop, seed, stall_chance=self.settings.stall_chance)
        outside = Outside(
            clock=clock,
            entropy=SimEntropy(seed),
            files=self.files,
            work=work,
            open_coordination=lambda _failed: self._ensemble.client(self.name),
        )
        broker = Broker(self._config(), outside, lambda reason: self._give_up(process, reason))
        self.broker = broker
        try:
            await broker.start()
        except (BarnabasError, OSError) as error:
            self._give_up(process, str(error))
            return
        self.started = True
        self._loop.trace.note(f"started {self.name}")

    @property
    def partitions(self) -> Iterator[Partition]:
        """What it serves now."""
        replicas: Replicas | None = getattr(self.broker, "_replicas", None)
        if replicas is not None:
            for hosted in replicas.by_name.values():
                yield from hosted.partitions.values()

    def _config(self) -> BrokerConfig:
        settings = self.settings
        listener = f"PLAINTEXT://{self.name}:{PORT}"
        return BrokerConfig(
            {
                "node.id": str(self.number),
                "listeners": listener,
                "advertised.listeners": listener,
                "allow.insecure": "true",
                "log.dirs": DATA,
                "log.roll.ms": str(settings.roll_ms),
                "log.flush.interval.messages": "1" if settings.synced else str(2**63 - 1),
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "replica.lag.time.max.ms": str(int(settings.lag_max_s * 1000)),
                "replica.high.watermark.checkpoint.interval.ms": "2000",
                "zookeeper.session.timeout.ms": str(int(settings.session_s * 1000)),
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.num.partitions": "1",
                "group.initial.rebalance.delay.ms": "0",
                "log.cleaner.enable": "false",
                "leader.imbalance.check.interval.seconds": "15",
            }
        )

    # Ends.

    def _give_up(self, process: Process, reason: str) -> None:
        """The broker has ended by itself; whoever looks after it starts it again."""
        if process is self.process:
            self._loop.trace.note(f"gave up {self.name}: {reason}")
            self.gave_up.append(reason)
            # Not from within its own call: the process is to end after it.
            self._loop.call_soon(self._end_and_start_again, process, context=NOWHERE)

    def _end_and_start_again(self, process: Process) -> None:
        if process is self.process:
            self.kill()
            self.start_later(_AGAIN_S)

    def start_later(self, delay_s: float) -> None:
        """Start after a while."""
        self._cancel_restart()
        self._again = self._loop.call_later(delay_s, self.start, context=NOWHERE)

    def kill(self) -> None:
        """kill -9: the disk has all that was written."""
        if self.process is not None:
            self._end()
            self.files = self.files.kill()
            self._loop.network.kill_machine(self.name)

    def lose_power(self) -> None:
        """The disk has what was synced, and some of the rest."""
        if self.process is not None:
            self._end()
        self.files = self.files.crash()
        self._loop.network.unplug(self.name)

    def regain_power(self) -> None:
        """The machine can be reached again; its broker is to be started."""
        self._loop.network.plug(self.name)

    async def stop(self) -> None:
        """Stop in an orderly way, if it runs; returns when it has ended, one way or another."""
        process, broker = self.process, self.broker
        self._wanted = False
        self._cancel_restart()
        if process is None or broker is None or process.stopped or not self.started:
            self.kill()
            return
        self._loop.trace.note(f"stop {self.name}")
        stopped: asyncio.Future[None] = self._loop.create_future()
        with process.inside():
            task = self._loop.create_task(broker.stop())
        task.add_done_callback(lambda _: None if stopped.done() else stopped.set_result(None))
        while not stopped.done() and process is self.process:
            await asyncio.wait([stopped], timeout=1.0)
        if process is self.process:
            self._loop.trace.note(f"stopped {self.name}")
            task.result()
            self._end()
            self.files = self.files.kill()
            self._loop.network.kill_machine(self.name)
            if self._wanted:
                self.start()  # Somebody has asked for it while it was stopping.

    def pause(self) -> None:
        """The process stands still."""
        if self.process is not None:
            self._ensemble.pause(self.name)
            self.process.pause()

    def resume(self) -> None:
        """It goes on."""
        self._ensemble.resume(self.name)
        if self.process is not None:
            self._loop.resume(self.process)

    def set_slow(self, seconds: float) -> None:
        """By how much the disk is slower than usual."""
        if self._work is not None:
            self._work.slower_s = seconds

    def _end(self) -> None:
        self._cancel_restart()
        if self.process is None:
            return
        self.on_end(self)
        process, self.process, self.broker = self.process, None, None
        self.started = False
        self._loop.kill(process)
        if self._work is not None:
            self._work.kill()
        self._ensemble.kill(self.name)
        self._ensemble.resume(self.name)

    def _cancel_restart(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
