"""Carries out a plan of faults, each only where the promise covers it."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.cluster import layout
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.invariants import Invariants
from barnabas.sim.cluster.machine import Machine
from barnabas.sim.cluster.plan import CRASHES, PARTITIONS, Fault
from barnabas.sim.cluster.trust import Trust
from barnabas.sim.loop import SimLoop
from barnabas.sim.zookeeper import Ensemble

STORE: Final = "zk"
_SLOW_LINK_S: Final = 0.5
_SLOW_DISK_S: Final = 1.5
_BOTH, _REQUESTS, _ANSWERS = range(3)


class Nemesis:
    """Begins and ends faults, and undoes all of them when it is time to heal."""

    def __init__(
        self,
        loop: SimLoop,
        ensemble: Ensemble,
        machines: Sequence[Machine],
        trust: Trust,
        invariants: Invariants,
    ) -> None:
        self.done: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._loop = loop
        self._ensemble = ensemble
        self._machines = {each.number: each for each in machines}
        self._trust = trust
        self._invariants = invariants
        self._active: dict[Fault, int] = {}
        """Faults under way, and at whom."""
        self._stopping: list[object] = []

    @property
    def crashes(self) -> int:
        """How many processes or machines died."""
        return sum(self.done[each] for each in CRASHES)

    @property
    def partitions(self) -> int:
        """How many times somebody could not reach somebody."""
        return sum(self.done[each] for each in PARTITIONS)

    def schedule(self, plan: Sequence[Fault]) -> None:
        """Let all of it happen, from now on."""
        for fault in plan:
            self._loop.call_later(fault.at_s, self._begin, fault)

    def heal(self) -> None:
        """Nothing goes wrong any more, and everybody runs."""
        self._active.clear()
        self._apply_cuts()
        self._apply_slowness()
        self._ensemble.regain_quorum()
        for machine in self._machines.values():
            machine.regain_power()
            machine.resume()
            machine.start()

    # --- beginning -----------------------------------------------------------------------------

    def _begin(self, fault: Fault) -> None:
        target = self._aim(fault)
        begin = getattr(self, "_" + fault.kind.replace(" ", "_"))
        if begin(fault, self._machines[target]):
            self.done[fault.kind] += 1
            self._active[fault] = target
            self._loop.trace.note(f"fault {fault} at {target}")
            self._loop.call_later(fault.for_s, self._end, fault)
        else:
            self.skipped[fault.kind] += 1

    def _aim(self, fault: Fault) -> int:
        if fault.target == "controller":
            node = self._ensemble.get(layout.CONTROLLER)
            return layout.decode_controller(node.data) if node else 1
        if fault.target == "leader":
            states = self._invariants.stored.states
            partition = (
                sorted(states)[fault.other % len(states)] if states else TopicPartition("", 0)
            )
            leader = states[partition].leader if states else 1
            return leader if leader in self._machines else 1
        return int(fault.target)

    def _end(self, fault: Fault) -> None:
        target = self._active.pop(fault, None)
        if target is None:
            return
        machine = self._machines[target]
        match fault.kind:
            case "kill" | "stop":
                machine.start()
            case "power":
                machine.regain_power()
                machine.start()
            case "kill all" | "blackout":
                for each in self._machines.values():
                    each.regain_power()
                    each.start()
            case "pause":
                if not self._is_active("pause", target):
                    machine.resume()
            case "quorum":
                if not self._is_active("quorum"):
                    self._ensemble.regain_quorum()
        self._apply_cuts()
        self._apply_slowness()

    def _is_active(self, kind: str, target: int | None = None) -> bool:
        return any(each.kind == kind and target in (None, at) for each, at in self._active.items())

    # --- crashes -------------------------------------------------------------------------------

    def _kill(self, _fault: Fault, machine: Machine) -> bool:
        if not machine.runs:
            return False
        machine.kill()
        return True

    def _power(self, _fault: Fault, machine: Machine) -> bool:
        if not machine.runs or not self._trust.allows_power_loss(machine.number):
            return False
        self._trust.lost_power(machine.number)
        machine.lose_power()
        return True

    def _kill_all(self, fault: Fault, _machine: Machine) -> bool:
        """One after the other, in an order of its own."""
        return self._each(fault, self._kill)

    def _blackout(self, fault: Fault, _machine: Machine) -> bool:
        return self._each(fault, self._power)

    def _each(self, fault: Fault, do: Callable[[Fault, Machine], bool]) -> bool:
        numbers = sorted(self._machines)
        first = fault.other % len(numbers)
        done = [do(fault, self._machines[each]) for each in numbers[first:] + numbers[:first]]
        return any(done)

    def _stop(self, _fault: Fault, machine: Machine) -> bool:
        if not machine.started:
            return False
        self._stopping.append(self._loop.create_task(machine.stop()))
        return True

    def _pause(self, _fault: Fault, machine: Machine) -> bool:
        machine.pause()
        return machine.runs

    # --- the network ---------------------------------------------------------------------------

    def _cut(self, fault: Fault, machine: Machine) -> bool:
        self._active[fault] = machine.number
        self._apply_cuts()
        return True

    _cut_one_way = _isolate = _cut_store = _cut

    def _apply_cuts(self) -> None:
        network, names = self._loop.network, [each.name for each in self._machines.values()]
        for at, one in enumerate(names):
            for other in (*names[at + 1 :], STORE):
                if network.is_cut(one, other) or network.is_cut(other, one):
                    network.heal(one, other)
            self._ensemble.heal(one)
        for fault, target in self._active.items():
            self._apply_cut(fault, self._machines[target].name, names)

    def _apply_cut(self, fault: Fault, name: str, names: list[str]) -> None:
        network = self._loop.network
        others = [each for each in names if each != name]
        match fault.kind:
            case "cut":
                network.cut(name, others[fault.other % len(others)])
            case "cut one way":
                ends = [name, others[fault.other // 2 % len(others)]]
                network.cut(*(ends if fault.other % 2 else ends[::-1]), both=False)
            case "isolate":
                for other in others:
                    network.cut(name, other)
                if fault.other % 2:
                    self._ensemble.cut(name)
            case "cut store":
                way = fault.other % 3
                self._ensemble.cut(name, requests=way != _ANSWERS, answers=way != _REQUESTS)
            case _:
                return

    def _break(self, _fault: Fault, machine: Machine) -> bool:
        self._loop.network.break_all(machine.name)
        self._ensemble.break_connection(machine.name)
        return True

    def _slow_link(self, fault: Fault, machine: Machine) -> bool:
        self._active[fault] = machine.number
        self._apply_slowness()
        return True

    _slow_disk = _slow_link

    def _apply_slowness(self) -> None:
        names = [each.name for each in self._machines.values()]
        self._loop.network.delays.clear()
        for machine in self._machines.values():
            machine.set_slow(0.0)
        for fault, target in self._active.items():
            machine = self._machines[target]
            if fault.kind == "slow link":
                other = names[fault.other % len(names)]
                self._loop.network.delays[frozenset((machine.name, other))] = _SLOW_LINK_S
            elif fault.kind == "slow disk":
                machine.set_slow(_SLOW_DISK_S)

    # --- the store -----------------------------------------------------------------------------

    def _expire(self, _fault: Fault, machine: Machine) -> bool:
        self._ensemble.expire(machine.name)
        return True

    def _lose_answer(self, fault: Fault, machine: Machine) -> bool:
        after = bool(fault.other % 4)
        self._ensemble.lose_next(machine.name, after=after, count=1 + fault.other % 3)
        return True

    def _quorum(self, _fault: Fault, _machine: Machine) -> bool:
        self._ensemble.lose_quorum()
        return True
