"""Classic groups under any order of events: members, impostors, time, restarts, lost appends."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.coordinator.classic.stage import Ask, G, Stage
from tests.coordinator.classic.witness import Witness

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import Join, Joined, Leaver, Sync, Synced
from barnabas.coordinator.group.classic.member import SESSION
from barnabas.coordinator.group.classic.rebalance import JOIN, PENDING_MEMBER, PENDING_SYNC
from barnabas.coordinator.group.classic.state import State
from barnabas.coordinator.runtime.turn import TimerKey
from barnabas.model.errors import ErrorCode as Code

SIZE_MAX = 4
PROTOCOLS = (
    (("range", b"1"),),
    (("range", b"1"), ("sticky", b"1")),
    (("sticky", b"2"), ("range", b"2")),
)
ACTORS = st.integers(0, 5)


@dataclass
class Actor:
    """A client's process. The even ones are dynamic members, the odd ones static."""

    name: str
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    leads: tuple[str, ...] = ()
    synced: bool = False
    waiting: list[Ask] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        return any(ask.waits for ask in self.waiting)


class ClassicGroupMachine(RuleBasedStateMachine):
    """The promises are those of `witness.Witness`, and the ones below."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(GroupSettings(max_size=SIZE_MAX))
        self.stage.on_answer = self.hears
        self.witness = Witness(self.stage)
        self.actors = [Actor(f"a{i}", f"i{i}" if i % 2 else None) for i in range(6)]
        self.zombies: list[Actor] = []
        self.ids: list[str] = ["nobody", ""]
        self.plans = 0

    # --- members -------------------------------------------------------------------------------

    def hears(self, ask: Ask) -> None:
        self.witness.hears(ask)
        what, value = ask.what, ask.value
        if not isinstance(what, Join | Sync):
            return
        actor = self.by_name(what)
        if actor is None:
            return
        if isinstance(value, Joined) and value.member_id:
            actor.member_id = value.member_id
            self.ids.append(value.member_id)
            if ask.code is Code.none:
                actor.generation, actor.synced = value.generation, False
                actor.protocol = value.protocol_name
                actor.leads = tuple(member.member_id for member in value.members)
        elif isinstance(value, Synced):
            actor.synced = True
        elif what.member_id == actor.member_id:
            self.despairs(actor, ask.code)

    def by_name(self, what: Join | Sync) -> Actor | None:
        everybody = self.actors + self.zombies
        if isinstance(what, Join):
            return next((one for one in everybody if one.name == what.client.id), None)
        return next((one for one in everybody if one.member_id == what.member_id), None)

    def despairs(self, actor: Actor, code: Code) -> None:
        actor.generation = -1
        lost = {Code.unknown_member_id, Code.fenced_instance_id, Code.group_max_size_reached}
        if code in lost:
            actor.member_id = ""

    def joins(self, actor: Actor, variant: int, *, polite: bool = True, skips: bool = True) -> None:
        returns = actor.instance_id is not None and not actor.member_id
        ask = self.stage.join(
            actor.member_id,
            client=actor.name,
            instance_id=actor.instance_id,
            protocols=PROTOCOLS[variant],
            session_ms=10_000,
            rebalance_ms=15_000,
            needs_member_id=polite,
            can_skip=skips,
        )
        actor.waiting = [one for one in actor.waiting if one.waits] + [ask]
        if returns and actor.instance_id is not None and ask.waits:
            self.witness.replaced(actor.instance_id)
        self.witness.reads_the_log(ask.what)

    def syncs(self, actor: Actor) -> None:
        self.plans += 1
        plan = {one: f"{one}/{self.plans}".encode() for one in actor.leads}
        ask = self.stage.sync(
            actor.member_id,
            actor.generation,
            plan,
            instance_id=actor.instance_id,
            protocol_name=actor.protocol,
        )
        actor.waiting = [one for one in actor.waiting if one.waits] + [ask]
        self.witness.reads_the_log(ask.what)

    def beats(self, actor: Actor) -> Code:
        code = self.stage.beat(actor.member_id, actor.generation, actor.instance_id)
        if code is not Code.none and code is not Code.rebalance_in_progress:
            self.despairs(actor, code)
        return code

    def acts(self, actor: Actor, variant: int) -> None:
        """What a well-behaved client does next."""
        if actor.waits:
            return
        if actor.generation < 0:
            self.joins(actor, variant)
        elif not actor.synced:
            self.syncs(actor)
        elif self.beats(actor) is Code.rebalance_in_progress:
            self.joins(actor, variant)

    # --- rules ---------------------------------------------------------------------------------

    @rule(index=ACTORS, variant=st.integers(0, 2), polite=st.booleans(), skips=st.booleans())
    def a_member_joins(self, index: int, variant: int, polite: bool, skips: bool) -> None:
        self.joins(self.actors[index], variant, polite=polite, skips=skips)

    @rule(index=ACTORS)
    def a_member_syncs(self, index: int) -> None:
        self.syncs(self.actors[index])

    @rule(index=ACTORS, variant=st.integers(0, 2))
    def a_member_does_what_is_next(self, index: int, variant: int) -> None:
        self.acts(self.actors[index], variant)

    @rule(variant=st.integers(0, 2), rounds=st.integers(1, 5), many=st.integers(1, 6))
    def members_do_what_is_next(self, variant: int, rounds: int, many: int) -> None:
        for _ in range(rounds):
            for actor in self.actors[:many]:
                self.acts(actor, variant)
            self.pass_time(3_000)

    @rule(index=ACTORS)
    def a_member_beats(self, index: int) -> None:
        self.beats(self.actors[index])

    @rule(index=ACTORS)
    def a_member_commits(self, index: int) -> None:
        actor = self.actors[index]
        code = self.stage.commit(actor.member_id, actor.generation, actor.instance_id)
        if code is Code.none and actor.generation >= 0:
            assert actor.member_id not in self.witness.dead
            assert actor.generation == self.stage.group.generation
            assert self.stage.group.state in (State.STABLE, State.PREPARING_REBALANCE)

    @rule(index=ACTORS, by_instance=st.booleans())
    def a_member_leaves(self, index: int, by_instance: bool) -> None:
        actor = self.actors[index]
        named = "" if by_instance and actor.instance_id else actor.member_id
        self.stage.leave(Leaver(member_id=named, instance_id=actor.instance_id))
        actor.member_id, actor.generation = "", -1
        self.witness.reads_the_log()

    @rule(index=st.integers(0, 2))
    def a_static_member_restarts(self, index: int) -> None:
        old = self.actors[index * 2 + 1]
        self.zombies = [*self.zombies[-2:], old]
        self.actors[index * 2 + 1] = Actor(old.name + "'", old.instance_id)

    @rule(index=st.integers(0, 2), variant=st.integers(0, 2))
    def a_process_that_was_replaced_goes_on(self, index: int, variant: int) -> None:
        if index < len(self.zombies) and self.zombies[index].member_id:
            self.acts(self.zombies[index], variant)

    @rule(which=st.integers(0, 50), generation=st.integers(-1, 6), index=ACTORS)
    def an_impostor_tries(self, which: int, generation: int, index: int) -> None:
        """Any id that ever was, with any generation and anybody's instance."""
        member_id = self.ids[which % len(self.ids)]
        instance_id = self.actors[index].instance_id
        roster = self.stage.groups[G].roster if G in self.stage.groups else None
        honest = roster is not None and member_id in roster.members
        code = self.stage.beat(member_id, generation, instance_id)
        if code in (Code.none, Code.rebalance_in_progress):
            assert honest
            assert generation == self.stage.group.generation

    @rule(ms=st.sampled_from([1, 500, 3_000, 9_999, 15_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.pass_time(ms)

    @rule(jump_ms=st.sampled_from([-(10**10), 10**10]))
    def the_wall_clock_jumps(self, jump_ms: int) -> None:
        self.stage.now_ms += jump_ms

    def pass_time(self, ms: int) -> None:
        self.stage.advance(ms)
        self.witness.reads_the_log()

    @rule()
    def the_shard_is_reloaded(self) -> None:
        before = self.stage.groups[G].described() if G in self.stage.groups else None
        self.stage.reload()
        self.witness.reloaded()
        if before is not None and before.state == "Stable":
            self.a_stable_group_survives(before.members)

    @rule(index=ACTORS, variant=st.integers(0, 2))
    def an_append_fails(self, index: int, variant: int) -> None:
        self.stage.append_fails = True
        self.acts(self.actors[index], variant)
        if not self.stage.append_fails:
            self.witness.reloaded()
        self.stage.append_fails = False

    # --- promises ------------------------------------------------------------------------------

    def a_stable_group_survives(self, members: tuple[object, ...]) -> None:
        """DURABLE: a stable group is read back with the same members and assignments."""
        assert self.stage.group.described().members == members

    @invariant()
    def what_the_witness_saw(self) -> None:
        self.witness.a_generation_has_one_leader_and_one_protocol()
        self.witness.everybody_who_joined_is_listed()
        self.witness.groups_stay_small(SIZE_MAX)

    @invariant()
    def a_state_says_who_waits(self) -> None:
        """STATES: in Stable everybody can have the assignment that its leader gave and nobody
        waits; in CompletingRebalance members wait for nothing but the leader's word; in
        PreparingRebalance for nothing but each other; in Empty there are no members."""
        if G not in self.stage.groups:
            return
        group, roster = self.stage.group, self.stage.group.roster
        joins = [one for one in roster if one.join_waiter is not None]
        syncs = [one for one in roster if one.sync_waiter is not None]
        assert len(joins) == roster.joining
        assert len(joins) + len(syncs) == len(self.stage.parked), "somebody waits for nothing"
        assert not joins or group.state is State.PREPARING_REBALANCE
        assert not syncs or group.state is State.COMPLETING_REBALANCE
        assert bool(roster.members) or group.state in (State.EMPTY, State.PREPARING_REBALANCE)
        assert not (roster.members and group.state is State.EMPTY)
        if group.state is State.STABLE:
            given = self.witness.given[group.generation]
            assert {one.member_id: one.assignment for one in roster} == given

    @invariant()
    def nobody_is_forgotten(self) -> None:
        """WATCHED: every member and every given id has a timer that will ask after it, and so has
        every state that waits for somebody."""
        if G not in self.stage.groups:
            return
        group, timers = self.stage.group, self.stage.timers
        roster = group.roster
        sessions = {key.member for key in timers if key.kind == SESSION}
        assert sessions == roster.members.keys()
        assert {key.member for key in timers if key.kind == PENDING_MEMBER} == roster.pending
        assert (TimerKey(JOIN, G) in timers) == (group.state is State.PREPARING_REBALANCE)
        assert (TimerKey(PENDING_SYNC, G) in timers) == bool(roster.unsynced)
        assert roster.unsynced <= roster.members.keys()
        assert (roster.leader is None) == (not roster.members)
        assert roster.leader is None or roster.leader in roster.members
        assert not roster.members.keys() & roster.pending

    def teardown(self) -> None:
        """ANSWERED: when enough time has passed, nobody waits any more; and when all are silent
        the group is empty and nothing is left to wait for."""
        self.stage.advance(1_000_000)
        assert self.stage.parked == []
        assert self.stage.timers == {}
        assert G not in self.stage.groups or self.stage.group.is_empty


TestClassicGroupMachine = ClassicGroupMachine.TestCase
TestClassicGroupMachine.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
