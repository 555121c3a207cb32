"""A stage for classic groups: turns, virtual time, timers that come, answers that arrive."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.cluster.image import Image
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import (
    Client,
    Heartbeat,
    Join,
    Joined,
    Leaver,
    Left,
    Sync,
    Synced,
)
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.groups import ClassicGroups
from barnabas.coordinator.runtime.turn import PARKED, TimerKey, Turn, Waiter
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.sim.entropy import SimEntropy
from barnabas.wire.stored import GroupMetadata, Stored
from barnabas.wire.stored.consumer_protocol import Subscription, encode_subscription

IMAGE = Image(cluster_id="c", controller_id=1, brokers={}, config=BrokerConfig({"node.id": "1"}))
G = "group"
RANGE = (("range", b"meta"),)
NONE = ErrorCode.none


def reads(*topics: str) -> tuple[tuple[str, bytes], ...]:
    """The protocols of a consumer that reads these topics."""
    return (("range", encode_subscription(Subscription(topics=topics))),)


class Ask:
    """One request, and its answer once that has come."""

    def __init__(self, what: Any = None) -> None:
        self.what = what
        self.waiter = Waiter()
        self.value: Any = None

    @property
    def waits(self) -> bool:
        return self.value is None

    @property
    def code(self) -> ErrorCode:
        """The error, NONE for none."""
        assert not self.waits, "no answer yet"
        if isinstance(self.value, KafkaError):
            return self.value.code
        error = getattr(self.value, "error", NONE)
        assert isinstance(error, ErrorCode)
        return error

    @property
    def joined(self) -> Joined:
        assert isinstance(self.value, Joined), self.value
        assert self.value.error is NONE
        return self.value

    @property
    def synced(self) -> Synced:
        assert isinstance(self.value, Synced), self.value
        return self.value

    @property
    def left(self) -> list[ErrorCode]:
        assert isinstance(self.value, list)
        assert all(isinstance(one, Left) for one in self.value)
        return [one.error for one in self.value]


class Stage:
    """A shard of classic groups alone, and the log below it."""

    def __init__(self, settings: GroupSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or GroupSettings()
        self.entropy = SimEntropy(seed)
        self.now_ms = 1_700_000_000_000
        self.monotonic_ms = 5_000
        self.records: list[Stored] = []
        self.append_fails = False
        self.on_answer: Callable[[Ask], None] = lambda ask: None
        self.on_timer: Callable[[TimerKey], None] = lambda key: None
        self._fresh()

    def _fresh(self) -> None:
        self.groups: dict[str, Any] = {}
        self.classic = ClassicGroups(self.groups, lambda: self.settings, self.entropy)
        self.timers: dict[TimerKey, int] = {}
        self.asks: dict[Waiter, Ask] = {}

    # --- turns ---------------------------------------------------------------------------------

    def run(self, decide: Callable[[Turn[Stored], Waiter], Any], what: Any = None) -> Ask:
        """Let somebody ask."""
        ask, turn = Ask(what), self._turn()
        self.asks[ask.waiter] = ask
        try:
            answer = decide(turn, ask.waiter)
        except KafkaError as error:
            assert not turn.records
            assert not turn.replies
            assert not turn.timers, "the timers of a refusal would be lost"
            answer = error
        if not self._settle(turn):
            assert ask.code is ErrorCode.not_coordinator
        elif answer is not PARKED:
            self._deliver(ask.waiter, answer if answer is not None else NONE)
        return ask

    def _turn(self) -> Turn[Stored]:
        return Turn(self.now_ms, self.monotonic_ms, IMAGE, self.apply)

    def apply(self, record: Stored) -> None:
        if isinstance(record, GroupMetadata):
            self.classic.apply(record)

    def _settle(self, turn: Turn[Stored]) -> bool:
        if turn.records and self.append_fails:
            self.append_fails = False
            self.reload()
            return False
        self.records += turn.records
        for key, delay_ms in turn.timers.items():
            self.timers.pop(key, None)
            if delay_ms is not None:
                assert delay_ms >= 0
                self.timers[key] = self.monotonic_ms + delay_ms
        for waiter, answer in turn.replies:
            self._deliver(waiter, answer)
        return True

    def _deliver(self, waiter: Waiter, answer: Any) -> None:
        ask = self.asks.pop(waiter)  # A second answer would find nobody.
        ask.value = answer
        self.on_answer(ask)

    @property
    def parked(self) -> list[Ask]:
        return list(self.asks.values())

    def reload(self) -> None:
        """Drop the shard and read back the last record of each key."""
        waiting = self.asks
        self._fresh()
        last: dict[str, GroupMetadata] = {}
        for record in self.records:
            if isinstance(record, GroupMetadata):
                last.pop(record.group, None)
                last[record.group] = record
        for one in last.values():
            self.classic.apply(one)
        turn = self._turn()
        self.classic.loaded(turn)
        assert self._settle(turn)
        self.asks.update(waiting)
        for waiter in waiting:
            self._deliver(waiter, KafkaError(ErrorCode.not_coordinator))

    def advance(self, ms: int) -> None:
        """Let time pass, and every timer come at its time."""
        end_ms = self.monotonic_ms + ms
        while self.timers:
            key = min(self.timers, key=self.timers.__getitem__)
            due_ms = self.timers[key]
            if due_ms > end_ms:
                break
            del self.timers[key]
            self._pass_to(max(due_ms, self.monotonic_ms))
            self.on_timer(key)
            turn = self._turn()
            self.classic.fire(turn, key)
            self._settle(turn)
        self._pass_to(end_ms)

    def _pass_to(self, monotonic_ms: int) -> None:
        self.now_ms += monotonic_ms - self.monotonic_ms
        self.monotonic_ms = monotonic_ms

    def wait_for(self, ask: Ask) -> None:
        """Let initial delays pass, and no more."""
        for _ in range(10):
            if ask.waits:
                self.advance(self.settings.initial_rebalance_delay_ms)

    # --- what members do -----------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        client: str = "client",
        instance_id: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        needs_member_id: bool = False,
        can_skip: bool = True,
        reason: str | None = None,
        group: str = G,
    ) -> Ask:
        ask = Join(
            group_id=group,
            member_id=member_id,
            instance_id=instance_id,
            client=Client(id=client, host="/127.0.0.1"),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(protocols),
            reason=reason,
            needs_member_id=needs_member_id,
            can_skip_assignment=can_skip,
        )
        return self.run(lambda turn, waiter: self.classic.join(turn, waiter, ask), ask)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group: str = G,
    ) -> Ask:
        ask = Sync(
            group_id=group,
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or {},
        )
        return self.run(lambda turn, waiter: self.classic.sync(turn, waiter, ask), ask)

    def beat(
        self, member_id: str, generation: int, instance_id: str | None = None, group: str = G
    ) -> ErrorCode:
        ask = Heartbeat(
            group_id=group, generation=generation, member_id=member_id, instance_id=instance_id
        )
        return self.run(lambda turn, waiter: self.classic.heartbeat(turn, ask), ask).code

    def leave(self, *leavers: str | Leaver, group: str = G) -> Ask:
        who = [
            Leaver(member_id=one, instance_id=None) if isinstance(one, str) else one
            for one in leavers
        ]
        return self.run(lambda turn, waiter: self.classic.leave(turn, group, who), who)

    def commit(
        self, member_id: str, generation: int, instance_id: str | None = None, group: str = G
    ) -> ErrorCode:
        def check(turn: Turn[Stored], waiter: Waiter) -> None:
            one = self.classic.simple(group)
            one.check_commit(turn, member_id, instance_id, generation, knows_epochs=True)

        return self.run(check).code

    # --- at a glance ---------------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        group = self.groups[G]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state.value

    @property
    def reason(self) -> str:
        assert self.group.last_rebalance is not None
        return self.group.last_rebalance.reason

    @property
    def written(self) -> GroupMetadata:
        last = self.records[-1]
        assert isinstance(last, GroupMetadata)
        return last

    def stable(self, *who: str, static: bool = False, **more: Any) -> list[str]:
        """A stable group of these, the first leading; their ids. Each is assigned its name."""
        asks = [self.join(client=one, instance_id=one if static else None, **more) for one in who]
        self.wait_for(asks[0])
        ids = [ask.joined.member_id for ask in asks]
        generation = asks[0].joined.generation
        name = asks[0].joined.protocol_name
        plan = {member_id: one.encode() for member_id, one in zip(ids, who, strict=True)}
        for member_id in ids[::-1]:
            self.sync(member_id, generation, plan, protocol_name=name)
        assert self.state == "Stable"
        return ids
