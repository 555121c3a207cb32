"""Breaks what a fault names, and mends it."""

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.chaos.cluster import faults
from tests.chaos.cluster.alarms import LogWatch
from tests.chaos.cluster.crowd import PLACES, Crowd
from tests.chaos.cluster.faults import Fault, Kind
from tests.chaos.cluster.hosting import BROKERS, SERVERS, SMALL_DISK, Rig
from tests.chaos.cluster.network import CLIENTS

from barnabas.model.errors import BarnabasError
from barnabas.world.zookeeper_server import ZooKeeperServer

_RATES_KBIT: Final = (64, 256, 1000)
_RESTARTS_MAX: Final = 5
_ELECTION_S_MAX: Final = 15.0
"""Nothing is broken before a fault: by then there is somebody in office again."""
_LOOK_S: Final = 0.1


class NotHitError(Exception):
    """Whom the fault was meant for had ended by itself before, or there is none such."""


class Striking:
    """One fault at a time; what it has broken is whole again when `carry_out` returns."""

    def __init__(self, rig: Rig, crowd: Crowd, wait: Callable[[float], None]) -> None:
        self._rig = rig
        self._crowd = crowd
        self._wait = wait
        self._means: Mapping[Kind, Callable[[Fault, random.Random], str | None]] = {
            Kind.KILL: self._kill,
            Kind.PAUSE: self._pause,
            Kind.CUT: self._cut,
            Kind.QUORUM: self._quorum,
            Kind.ROLL: self._roll,
            Kind.DISK: self._disk,
            Kind.SLOW: self._slow,
            Kind.HIJACK: lambda _fault, chance: self._crowd.hijack(chance),
        }
        self.restarted: list[str] = []
        """Brokers that had ended because of a full disk, and how."""
        self._watch = LogWatch(rig.logs)
        self._kinds: tuple[Kind | None, Kind | None] = (None, None)
        """The fault before, and this one."""

    def is_possible(self, fault: Fault) -> bool:
        """Whether this machine can do that."""
        return fault.kind is not Kind.DISK or self._rig.has_small_disk

    def carry_out(self, fault: Fault) -> str | None:
        """Whom it hit, in words; None when it hit nobody."""
        self._kinds = (self._kinds[1], fault.kind)
        try:
            return self._means[fault.kind](fault, random.Random(fault.draw))
        except NotHitError as error:
            self._crowd.journal.complain(f"fault {fault.number} ({fault.kind}) hit nobody: {error}")
            return None
        finally:
            self.heal()
            self.hear_alarms()

    def hear_alarms(self) -> None:
        """What brokers have logged since the last time, and must not."""
        for alarm in self._watch.look(without_room=self._excused):
            self._crowd.journal.complain(alarm)

    @property
    def _excused(self) -> tuple[int, ...]:
        """Who may end by itself: whose disk is full, or was until a moment ago."""
        return (SMALL_DISK,) if Kind.DISK in self._kinds else ()

    def heal(self) -> None:
        """Everything runs, and everything arrives."""
        rig = self._rig
        rig.network.heal()
        rig.free_disk()
        for server in rig.zookeeper.servers:
            server.signal(signal.SIGCONT)
            if not server.is_running():
                server.start()
        for broker in BROKERS:
            rig.resume(broker)
        for server in rig.zookeeper.servers:
            server.wait_ready()
        for number in rig.dead():
            self._note_death(number)
        self._start(rig.dead())

    def _note_death(self, number: int) -> None:
        """Of a broker that nobody has killed."""
        try:
            ended = self._rig.brokers[number].ended()
        except BarnabasError:
            return  # It was stopped by us.
        self._note(number, f"broker {number} {ended}, by itself")

    def _note(self, number: int, what: str) -> None:
        if number in self._excused:
            self.restarted.append(what)
        else:
            self._crowd.journal.complain(what)

    def _start(self, numbers: Sequence[int]) -> None:
        """Who is down begins again; if it can not yet, once more, as a supervisor would do."""
        for number in numbers:
            self._rig.brokers[number].start()
        for number in numbers:
            for attempt in range(_RESTARTS_MAX):
                try:
                    self._rig.brokers[number].wait_ready()
                except BarnabasError as error:
                    self._note(number, str(error))
                    if attempt == _RESTARTS_MAX - 1:
                        raise
                    time.sleep(1)
                    self._rig.brokers[number].start()
                else:
                    break

    # Whom

    def _broker(self, fault: Fault, chance: random.Random) -> int:
        topic, partition = chance.choice(PLACES)
        if fault.target in (faults.CONTROLLER, faults.CONTROLLER_ALONE):
            return self._known(self._rig.controller, "controller")
        leader = self._known(
            lambda: self._rig.leader_of(topic, partition), f"leader of {topic}-{partition}"
        )
        if fault.target == faults.FOLLOWER:
            return chance.choice([number for number in BROKERS if number != leader])
        return leader

    def _known(self, ask: Callable[[], int | None], what: str) -> int:
        """Who it is, as soon as brokers can say it: some may still be about to elect."""
        deadline = time.monotonic() + _ELECTION_S_MAX
        while (number := ask()) is None:
            if time.monotonic() > deadline:
                raise NotHitError(f"{_ELECTION_S_MAX:g} s long there was no {what}")
            self._wait(_LOOK_S)
        return number

    def _server(self, fault: Fault, chance: random.Random) -> ZooKeeperServer:
        if fault.target == faults.ZOOKEEPER_LEADER:
            return self._rig.zookeeper.leader()
        return chance.choice(self._rig.zookeeper.servers)

    def _require_alive(self, *numbers: int) -> None:
        if dead := [number for number in numbers if number in self._rig.dead()]:
            raise NotHitError(f"broker {', '.join(map(str, dead))} did not run")

    @staticmethod
    def _require_served(*servers: ZooKeeperServer) -> None:
        if dead := [server.number for server in servers if not server.is_running()]:
            raise NotHitError(f"zookeeper {', '.join(map(str, dead))} did not run")

    # How

    def _kill(self, fault: Fault, chance: random.Random) -> str:
        rig = self._rig
        if fault.target in (faults.ZOOKEEPER, faults.ZOOKEEPER_LEADER):
            server = self._server(fault, chance)
            self._require_served(server)
            server.kill()
            self._wait(fault.hold_s)
            return f"zookeeper {server.number}"
        if fault.target in (faults.BROKERS, faults.EVERYTHING):
            self._require_alive(*BROKERS)
            for number in BROKERS:
                rig.kill(number)
            if fault.target == faults.EVERYTHING:
                for server in rig.zookeeper.servers:
                    server.kill()
            self._wait(fault.hold_s)
            return fault.target
        number = self._broker(fault, chance)
        self._require_alive(number)
        rig.kill(number)
        self._wait(fault.hold_s)
        return f"broker {number}"

    def _pause(self, fault: Fault, chance: random.Random) -> str:
        if fault.target == faults.ZOOKEEPER_LEADER:
            server = self._server(fault, chance)
            self._require_served(server)
            server.signal(signal.SIGSTOP)
            self._wait(fault.hold_s)
            return f"zookeeper {server.number}"
        numbers: Sequence[int] = BROKERS
        if fault.target not in (faults.BROKERS, faults.EVERYTHING):
            numbers = (self._broker(fault, chance),)
        self._require_alive(*numbers)
        for number in numbers:
            self._rig.pause(number)
        if fault.target == faults.EVERYTHING:
            for server in self._rig.zookeeper.servers:
                server.signal(signal.SIGSTOP)
        self._wait(fault.hold_s)
        if fault.target == faults.EVERYTHING:
            return fault.target
        return f"broker {', '.join(map(str, numbers))}"

    def _cut(self, fault: Fault, chance: random.Random) -> str:
        brokers = [f"broker-{number}" for number in BROKERS]
        servers = [f"zookeeper-{number}" for number in SERVERS]
        if fault.target == faults.SERVER_ALONE:
            server = self._server(fault, chance)
            self._require_served(server)
            one = f"zookeeper-{server.number}"
        else:
            number = self._broker(fault, chance)
            self._require_alive(number)
            one = f"broker-{number}"
        others = {
            faults.FROM_ZOOKEEPER: servers,
            faults.FROM_FOLLOWERS: brokers,
            faults.FROM_ALL: [*brokers, *servers, CLIENTS],
            faults.CONTROLLER_ALONE: [*brokers, *servers, CLIENTS],
        }.get(fault.target, [*brokers, *servers])
        for other in others:
            if other == one:
                continue
            if fault.target != faults.HEARS_NOTHING:
                self._rig.network.cut(one, other)
            if fault.target != faults.SAYS_NOTHING:
                self._rig.network.cut(other, one)
        self._wait(fault.hold_s)
        return one.replace("-", " ")

    def _quorum(self, fault: Fault, chance: random.Random) -> str:
        two = chance.sample(list(self._rig.zookeeper.servers), 2)
        are_killed = chance.random() < 0.5
        self._require_served(*two)
        for server in two:
            if are_killed:
                server.kill()
            else:
                server.signal(signal.SIGSTOP)
        self._wait(fault.hold_s)
        how = "killed" if are_killed else "paused"
        return f"zookeeper {', '.join(str(server.number) for server in two)} {how}"

    def _roll(self, fault: Fault, chance: random.Random) -> str:
        self._require_alive(*BROKERS)
        for number in BROKERS:
            problem = self._rig.stop_cleanly(number)
            if problem is not None:
                self._note(number, problem)
            self._start([number])
            self._rig.wait_until_in_sync()
        return "broker 1, 2, 3"

    def _disk(self, fault: Fault, chance: random.Random) -> str:
        self._require_alive(SMALL_DISK)
        self._rig.fill_disk()
        self._wait(fault.hold_s)
        return f"broker {SMALL_DISK}"

    def _slow(self, fault: Fault, chance: random.Random) -> str:
        number, rate = self._broker(fault, chance), chance.choice(_RATES_KBIT)
        self._require_alive(number)
        self._rig.network.slow_down(f"broker-{number}", rate)
        self._wait(fault.hold_s)
        return f"broker {number}, {rate} kbit/s"
