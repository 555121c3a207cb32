"""Three replicas, any order of writes, copies, elections, ISR changes, lost answers and lost tails:
what was committed stays, everywhere it has to be."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.replica.conftest import NOW_MS
from tests.replica.exchange import Replica, Stored

from barnabas.cluster.image import BrokerNode, PartitionState
from barnabas.config.topic_config import TopicConfig
from barnabas.log.truncation import truncate_to
from barnabas.replica.in_sync import InSync
from barnabas.sim.loop import SimLoop
from barnabas.wire.fetch import FetchPartition

IDS = (1, 2, 3)
WHO = st.sampled_from(IDS)


@dataclass
class Ghost:
    """A question that was sent, and is still on its way when its asker has long gone on."""

    me: int
    broker_epoch: int
    part: FetchPartition
    leader: int


@dataclass
class Write:
    """An ISR that a leader wants stored."""

    in_sync: InSync
    isr: tuple[int, ...]
    lives: dict[int, int]
    is_unknown: bool = False


class Replication(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = SimLoop(0)
        self.stored = PartitionState(1, 0, IDS, IDS, 0)
        config = TopicConfig(min_insync_replicas=2, segment_bytes=600)
        self.replicas = {me: Replica(self.loop, me, self.stored, config) for me in IDS}
        self.ghosts: list[Ghost] = []
        self.writes: dict[int, Write] = {}
        self.committed: list[Stored] = []
        self.count = 0

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def nodes(self) -> dict[int, BrokerNode]:
        return {
            me: BrokerNode(me, "h", 1, epoch=each.broker_epoch)
            for me, each in self.replicas.items()
        }

    # --- what brokers do -----------------------------------------------------------------------

    @rule(follower=WHO, everybody=st.booleans())
    def a_usual_moment(self, follower: int, everybody: bool) -> None:
        """The leader takes a batch, and followers copy it."""
        self.learn(self.stored.leader)
        self.append(self.stored.leader, 1)
        for who in IDS if everybody else (follower,):
            self.learn(who)
            for _ in range(2):
                self.copy(who, leaves_ghost=False, max_bytes=1 << 20)

    @rule(lagging=st.booleans())
    def the_leader_changes_the_isr(self, lagging: bool) -> None:
        self.learn(self.stored.leader)
        self.propose(self.stored.leader, lagging)
        if self.stored.leader in self.writes:
            self._write(self.stored.leader, "told")

    @rule(who=WHO, how_many=st.integers(1, 3))
    def append(self, who: int, how_many: int) -> None:
        replica = self.replicas[who]
        if replica.partition.leads:
            self.count += 1
            replica.append(*[b"%d.%d" % (self.count, each) for each in range(how_many)])

    @rule(who=WHO, leaves_ghost=st.booleans(), max_bytes=st.sampled_from([1, 200, 1 << 20]))
    def copy(self, who: int, leaves_ghost: bool, max_bytes: int) -> None:
        replica = self.replicas[who]
        leader = replica.partition.state.leader
        if replica.partition.leads or leader not in IDS:
            return
        if leaves_ghost:
            part = replica.question()
            self.ghosts.append(Ghost(who, replica.broker_epoch, part, leader))
        self.run(replica.copy_from(self.replicas[leader], max_bytes))

    @precondition(lambda self: self.ghosts)
    @rule(data=st.data())
    def a_ghost_arrives(self, data: st.DataObject) -> None:
        ghost = self.ghosts.pop(data.draw(st.integers(0, len(self.ghosts) - 1)))
        leader: Any = self.replicas[ghost.leader]
        self.run(leader.answer(ghost, ghost.part))

    @rule(who=WHO)
    def learn(self, who: int) -> None:
        self.replicas[who].assume(self.stored)

    @rule(who=WHO, has_checkpoint=st.booleans())
    def restart(self, who: int, has_checkpoint: bool) -> None:
        """In an orderly way: nothing is lost but what was in memory."""
        replica = self.replicas[who]
        known = replica.log.committed or 0 if has_checkpoint else 0
        replica.log.close(clean=False)
        replica.broker_epoch += 10
        self.writes.pop(who, None)
        replica.open(self.stored, known)

    @rule(who=WHO)
    def sync(self, who: int) -> None:
        """What a broker knows now, it will know after a restart, be it true then or not."""
        log = self.replicas[who].log
        job = log.sync_job()
        if job is not None:
            job.run()
            log.synced(job)

    @rule(who=WHO, kept=st.integers(0, 20))
    def lose_the_tail(self, who: int, kept: int) -> None:
        """A power cut: it leaves every ISR before anything else."""
        stored = self.stored
        if stored.isr == (who,):
            return
        replica = self.replicas[who]
        replica.broker_epoch += 10
        if who in stored.isr:
            isr = tuple(each for each in stored.isr if each != who)
            self.store(isr=isr)
            if stored.leader == who:
                self.store(leader=isr[0], leader_epoch=stored.leader_epoch + 1)
        truncate_to(replica.log, max(replica.log.end_offset - kept, 0), NOW_MS)
        replica.log.close(clean=False)
        self.writes.pop(who, None)
        replica.open(self.stored, replica.partition.high_watermark)

    # --- what the controller and the leaders write -----------------------------------------------

    def store(self, **changes: Any) -> None:
        version = self.stored.partition_epoch + 1
        self.stored = replace(self.stored, partition_epoch=version, **changes)

    @rule(data=st.data(), keeps=st.booleans())
    def elect(self, data: st.DataObject, keeps: bool) -> None:
        leader = data.draw(st.sampled_from(self.stored.isr))
        isr = self.stored.isr
        if not keeps and leader != self.stored.leader:
            isr = tuple(each for each in isr if each != self.stored.leader)
        self.store(leader=leader, leader_epoch=self.stored.leader_epoch + 1, isr=isr)

    @rule(who=WHO, lagging=st.booleans())
    def propose(self, who: int, lagging: bool) -> None:
        partition = self.replicas[who].partition
        in_sync = partition.in_sync
        if in_sync is None or in_sync.proposed is not None:
            return
        self.writes.pop(who, None)
        isr = None
        if lagging:
            isr = in_sync.shrunk(partition.log.end_offset, self.loop.time() + 60, 30)
        else:
            for broker in in_sync.outsiders(self.loop.time(), 30):
                isr = isr or in_sync.grown(broker, partition.high_watermark, self.nodes())
        if isr is not None:
            in_sync.propose(isr)
            joining = [each for each in isr if each not in in_sync.state.isr]
            self.writes[who] = Write(in_sync, isr, in_sync.epochs_of(joining))

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), answer=st.sampled_from(["told", "lost", "never arrived"]))
    def write(self, data: st.DataObject, answer: str) -> None:
        self._write(data.draw(st.sampled_from(sorted(self.writes))), answer)

    def _write(self, who: int, answer: str) -> None:
        write = self.writes[who]
        partition = self.replicas[who].partition
        in_sync = write.in_sync
        if partition.in_sync is not in_sync:
            del self.writes[who]
            return
        if answer == "never arrived":
            write.is_unknown = True
            return
        is_changed = self.stored.partition_epoch != in_sync.state.partition_epoch
        nodes = self.nodes()
        is_ineligible = any(nodes[each].epoch != life for each, life in write.lives.items())
        if not is_changed and not is_ineligible:
            self.store(isr=write.isr)
        if answer == "lost":
            write.is_unknown = True
            return
        if not is_changed and is_ineligible:
            if write.is_unknown:
                write.isr, write.lives = in_sync.state.isr, {}
            else:
                in_sync.refused()
                del self.writes[who]
            return
        del self.writes[who]
        if self.stored.leader_epoch == in_sync.state.leader_epoch:
            in_sync.update(self.stored, self.loop.time())
            partition.advance()

    # --- what must hold ------------------------------------------------------------------------

    @invariant()
    def what_is_committed_stays(self) -> None:
        for replica in self.replicas.values():
            if not replica.partition.leads:
                continue
            mark = replica.partition.high_watermark
            seen = [each for each in replica.records() if each[0] < mark]
            known = self.committed[: len(seen)]
            assert seen[: len(known)] == known, "two records were committed at one offset"
            self.committed += seen[len(known) :]

    @invariant()
    def whoever_may_lead_has_all_that_is_committed(self) -> None:
        for me in self.stored.isr:
            records = self.replicas[me].records()[: len(self.committed)]
            assert records == self.committed, f"broker {me} is in the ISR and lacks some"

    def teardown(self) -> None:
        try:
            self._converge()
        finally:
            self.loop.close()

    def _converge(self) -> None:
        for replica in self.replicas.values():
            replica.assume(self.stored)
        leader = self.replicas[self.stored.leader]
        assert leader.partition.leads
        for replica in self.replicas.values():
            if replica is not leader:
                self.run(replica.catch_up(leader))
        for replica in self.replicas.values():
            assert replica.bytes() == leader.bytes()
            assert replica.failures == []
        assert leader.records()[: len(self.committed)] == self.committed


TestReplication = Replication.TestCase
TestReplication.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
