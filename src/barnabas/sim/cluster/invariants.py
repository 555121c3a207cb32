"""What must hold after every event, wherever something has changed.

After each event the partitions of the process it belonged to are looked at: whoever has another
role, epoch, end or high watermark than before is checked at once; the contents of logs when a
leader commits, when somebody comes to lead, and now and then of everybody.
"""

from collections.abc import Callable, Iterable
from typing import Final

from barnabas.cluster.image import PartitionState
from barnabas.model.topics import TopicPartition
from barnabas.replica.partition import Partition
from barnabas.sim.cluster.ledger import Ledger
from barnabas.sim.cluster.machine import Machine
from barnabas.sim.cluster.stored import StoredStates
from barnabas.sim.cluster.trust import Trust
from barnabas.sim.cluster.truth import Cursor, Truth, demand
from barnabas.sim.cluster.zombies import Zombies
from barnabas.sim.process import Process

_ALL_EVERY: Final = 2_000
"""Events between two comparisons of all logs."""
_ZOMBIES_EVERY: Final = 200


class _View:
    """One replica in one life, as it was seen last."""

    __slots__ = ("cursor", "end", "epoch", "isr", "leads", "proposed", "watermark")

    def __init__(self) -> None:
        self.cursor = Cursor()
        self.end = 0
        self.watermark = -1
        self.leads = False
        self.epoch = -1
        self.isr: tuple[int, ...] = ()
        self.proposed: tuple[int, ...] | None = None


class Invariants:
    """Looks at everything, and raises BrokenPromiseError."""

    def __init__(
        self,
        machines: Iterable[Machine],
        ledger: Ledger,
        trust: Trust,
        now_s: Callable[[], float],
    ) -> None:
        self.stored = StoredStates(self._stored_changed)
        self._ledger = ledger
        self._trust = trust
        self._machines = {each.name: each for each in machines}
        self._by_number = {each.number: each for each in machines}
        self._views: dict[str, dict[Partition, _View]] = {name: {} for name in self._machines}
        self._ends: dict[tuple[int, TopicPartition], int] = {}
        """Where each log ends, or ended when its machine stopped."""
        self._durable: dict[tuple[int, TopicPartition], int] = {}
        """Up to where each log was synced when its machine stopped."""
        self._furthest: dict[tuple[int, TopicPartition], int] = {}
        """Where each log ended when it was longest."""
        self._replicas: dict[TopicPartition, tuple[int, ...]] = {}
        """Who had a replica of each partition at the last look."""
        self._zombies = Zombies(self._by_number.values(), self.stored.states, now_s)
        self._led: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        self._events = 0

    def after_event(self, process: Process | None) -> None:
        """Something has happened in that process."""
        self._events += 1
        if self._events % _ALL_EVERY == 0:
            self.compare_all()
        if self._events % _ZOMBIES_EVERY == 0:
            self._zombies.look()
        if process is None:
            return
        machine = self._machines.get(process.machine)
        if machine is None or machine.process is not process:
            return
        views = self._views[machine.name]
        served = 0
        for partition in machine.partitions:
            served += 1
            view = views.get(partition)
            if view is None:
                view = views[partition] = _View()
                self._check_durable(machine, partition)
            in_sync = partition.in_sync
            if (
                view.watermark != partition.high_watermark
                or view.end != partition.log.end_offset
                or view.epoch != partition.leader_epoch
                or view.leads is not partition.leads
                or (
                    in_sync is not None
                    and (view.isr is not in_sync.state.isr or view.proposed is not in_sync.proposed)
                )
            ):
                self._changed(machine, partition, view)
        if served < len(views):
            self._check_gone(machine, views)

    def ended(self, machine: Machine) -> None:
        """A machine's process is about to end."""
        for partition in machine.partitions:
            log = partition.log
            end = log.recovery_point if machine.settings.synced else log.end_offset
            self._ends[machine.number, log.partition] = end
            self._durable[machine.number, log.partition] = log.recovery_point
        self._views[machine.name] = {}

    def compare_all(self) -> None:
        """Compare every log that is open with what is committed."""
        for name, views in self._views.items():
            machine = self._machines[name]
            for partition, view in views.items():
                self._compare(machine, partition, view)

    def _compare(self, machine: Machine, partition: Partition, view: _View) -> None:
        """LogMatching: of what it has beyond its high watermark, only members of the ISR can be
        sure that it is what others have."""
        log = partition.log
        stored = self.stored.states.get(log.partition)
        in_sync = stored is not None and machine.number in stored.isr
        up_to = log.end_offset if in_sync else partition.high_watermark
        truth = self._ledger.truth(log.partition)
        truth.compare(log, machine.files, view.cursor, up_to, machine.name)

    def _check_durable(self, machine: Machine, partition: Partition) -> None:
        """Durable: what was synced outlives every stop, also a power loss."""
        log = partition.log
        synced = self._durable.get((machine.number, log.partition), 0)
        demand(
            log.end_offset >= synced,
            "Durable",
            f"{machine.name} had synced {log.partition.directory} up to {synced}, and has it up "
            f"to {log.end_offset} after its start",
        )
        # Nobody deletes here: whoever begins later has lost something, and would never notice.
        words = f"{machine.name} has {log.partition.directory} from {log.start_offset} on only"
        demand(log.start_offset == 0, "Beginning", words)

    def _check_gone(self, machine: Machine, views: dict[Partition, _View]) -> None:
        """Kept: nobody removes, or puts aside, a log that he is counted on for."""
        served = set(machine.partitions)
        for partition in [each for each in views if each not in served]:
            del views[partition]
            state = self.stored.states.get(partition.log.partition)
            demand(
                state is None or machine.number not in state.isr,
                "Kept",
                f"{machine.name} has let go of {partition.log.partition.directory}, of which it "
                f"is in the ISR {state.isr if state else ()}",
            )

    # --- replicas ------------------------------------------------------------------------------

    def _changed(self, machine: Machine, partition: Partition, view: _View) -> None:
        log, name = partition.log, partition.log.partition
        who = f"{machine.name} ({name.directory}, epoch {partition.leader_epoch})"
        demand(
            partition.leader_epoch >= view.epoch,
            "MonotonicEpoch",
            f"{who} was in epoch {view.epoch} before",
        )
        begins = partition.leads and not (view.leads and view.epoch == partition.leader_epoch)
        if log.end_offset < view.end:
            view.cursor = Cursor()
        if partition.leads and not begins:
            demand(
                partition.high_watermark >= view.watermark,
                "MonotonicHighWatermark",
                f"{who} goes back from {view.watermark} to {partition.high_watermark}",
            )
        view.end = log.end_offset
        place = (machine.number, name)
        self._ends[place] = log.end_offset
        self._furthest[place] = max(log.end_offset, self._furthest.get(place, 0))
        truth = self._ledger.truth(name)
        if begins:
            self._check_leader(machine, partition, view)
        self._check_member(machine.number, name)
        if partition.leads and partition.high_watermark > truth.end:
            self._compare(machine, partition, view)
            truth.extend(log, machine.files, view.cursor, partition.high_watermark)
            self._check_members(name)
            self._check_enough(machine, partition, truth)
        if partition.leads:
            self._check_stable(machine, partition, truth)
        view.watermark = partition.high_watermark
        view.leads, view.epoch = partition.leads, partition.leader_epoch
        if partition.in_sync is not None:
            view.isr, view.proposed = partition.in_sync.state.isr, partition.in_sync.proposed
            self._check_maximal(machine, partition)

    def _check_leader(self, machine: Machine, partition: Partition, view: _View) -> None:
        """SingleLeader and LeaderCompleteness, as somebody comes to lead."""
        name, epoch = partition.log.partition, partition.leader_epoch
        life = (machine.number, machine.lives)
        known = self._led.setdefault((name, epoch), life)
        words = f"{known} and {life} lead {name.directory} in epoch {epoch}"
        demand(known == life, "SingleLeader", words)
        truth = self._ledger.truth(name)
        stored = self.stored.states.get(name)
        if stored is not None and stored.leader_epoch == epoch:
            demand(
                partition.log.end_offset >= truth.end,
                "LeaderCompleteness",
                f"{machine.name} leads {name.directory} in epoch {epoch} and ends at "
                f"{partition.log.end_offset}; {truth.end} were committed",
            )
        self._compare(machine, partition, view)

    def _check_enough(self, machine: Machine, partition: Partition, truth: Truth) -> None:
        """CommittedByEnough: what is committed was on `min.insync.replicas` disks at least. (One
        of them may have lost it since.)"""
        replicas = partition.state.replicas
        have = [
            each for each in replicas if self._furthest.get((each, truth.partition), 0) >= truth.end
        ]
        needed = min(partition.log.config.min_insync_replicas, len(partition.state.settled))
        demand(
            len(have) >= needed,
            "CommittedByEnough",
            f"{machine.name} has committed {truth} to {truth.end}, which only {have} ever had",
        )

    def _check_stable(self, machine: Machine, partition: Partition, truth: Truth) -> None:
        """StableOffset: no reader of committed records is shown what is not decided for good."""
        stable = partition.last_stable_offset
        demand(
            stable <= truth.stable_end,
            "StableOffset",
            f"{machine.name} shows {truth} to {stable}, and how the transaction at "
            f"{truth.stable_end} ends is not committed (epoch {partition.leader_epoch})",
        )

    def _check_maximal(self, machine: Machine, partition: Partition) -> None:
        """ReplicationQuorumSuperset: the leader waits for everybody who is in the stored ISR."""
        name, in_sync = partition.log.partition, partition.in_sync
        stored = self.stored.states.get(name)
        if in_sync is None or stored is None or not partition.leads:
            return
        if stored.leader_epoch == partition.leader_epoch:
            missing = set(stored.isr) - set(in_sync.maximal)
            demand(
                not missing,
                "MaximalIsr",
                f"{machine.name} leads {name.directory} in epoch {stored.leader_epoch} and does "
                f"not wait for {missing}, who are in the stored ISR {stored.isr}",
            )

    # --- the ISR -------------------------------------------------------------------------------

    def _stored_changed(self, partition: TopicPartition, state: PartitionState) -> None:
        for broker in state.adding:
            if broker not in self._replicas.get(partition, ()):
                # It begins with nothing, whatever it once had.
                self._ends.pop((broker, partition), None)
                self._durable.pop((broker, partition), None)
        self._replicas[partition] = state.replicas
        self._trust.stored(partition, state)
        self._check_members(partition)
        leader = self._by_number.get(state.leader)
        if leader is None or leader.process is None:
            return
        for each in leader.partitions:
            if each.log.partition == partition:
                self._check_maximal(leader, each)

    def _check_members(self, partition: TopicPartition) -> None:
        state = self.stored.states.get(partition)
        if state is not None:
            for member in state.isr:
                self._check_member(member, partition)

    def _check_member(self, member: int, partition: TopicPartition) -> None:
        """StrongIsr, LeaderCandidateCompleteness: who may be elected has all that is committed."""
        state = self.stored.states.get(partition)
        if state is None or member not in state.isr or self._trust.is_tainted(member, partition):
            return
        end = self._ends.get((member, partition), 0)
        truth = self._ledger.truth(partition)
        demand(
            end >= truth.end,
            "StrongIsr",
            f"{member} is in the ISR {state.isr} of {truth} (epoch {state.leader_epoch}) and ends "
            f"at {end}; {truth.end} are committed",
        )
