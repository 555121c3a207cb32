"""One member of a classic group: what it told of itself, what it waits for, when it is given up."""

from dataclasses import dataclass, field
from typing import Final

from barnabas.coordinator.group.asks import Client, Join
from barnabas.coordinator.runtime.turn import TimerKey, Turn, Waiter
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.wire.stored import GroupMetadataMember, Stored
from barnabas.wire.stored.consumer_protocol import decode_subscription

SESSION: Final = "classic-session"

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long the first JoinGroup of a member may wait. Its asker may have hung up and come back as
somebody else; without an end such remains would pile up in a rebalance that takes long."""

Protocols = tuple[tuple[str, bytes], ...]


def distinct(protocols: Protocols) -> dict[str, bytes]:
    """Metadata by name, the most wanted first; of a name that comes twice the first counts."""
    names: dict[str, bytes] = {}
    for name, metadata in protocols:
        names.setdefault(name, metadata)
    return names


@dataclass(slots=True, eq=False, kw_only=True)
class Member:
    """Lives as long as its member id. None of it is stored but what a GroupMetadata record has."""

    member_id: str
    instance_id: str | None
    client: Client
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]
    assignment: bytes = b""
    is_new: bool = False
    """Its first JoinGroup is not answered yet."""
    join_waiter: Waiter | None = None
    sync_waiter: Waiter | None = None
    _deadline_ms: int = 0
    _timer_ms: int | None = None
    """When the session's timer comes, which may be earlier than the deadline."""
    _read: tuple[bytes, frozenset[str] | None] | None = field(default=None, repr=False)

    @classmethod
    def joining(cls, member_id: str, ask: Join) -> "Member":
        """Somebody who was no member before."""
        return cls(
            member_id=member_id,
            instance_id=ask.instance_id,
            client=ask.client,
            session_timeout_ms=ask.session_timeout_ms,
            rebalance_timeout_ms=ask.rebalance_timeout_ms,
            protocols=distinct(ask.protocols),
            is_new=True,
        )

    @classmethod
    def stored(cls, stored: GroupMetadataMember, protocol: str) -> "Member":
        """Somebody who was a member when the record was written.

        Of its protocols only the one that was chosen is known.
        """
        no_timeout = stored.rebalance_timeout == -1
        return cls(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client=Client(id=stored.client_id, host=stored.client_host),
            session_timeout_ms=stored.session_timeout,
            rebalance_timeout_ms=stored.session_timeout if no_timeout else stored.rebalance_timeout,
            protocols={protocol: stored.subscription},
            assignment=stored.assignment,
        )

    def successor(self, member_id: str) -> "Member":
        """The same static member under its next id, with what it was assigned."""
        return Member(
            member_id=member_id,
            instance_id=self.instance_id,
            client=self.client,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    def offers(self, protocols: Protocols) -> bool:
        """Whether these are the protocols, in order and with the metadata, that it came with."""
        return list(self.protocols.items()) == list(distinct(protocols).items())

    # --- its session ---------------------------------------------------------------------------

    def touch(self, monotonic_ms: int) -> None:
        """A sign of life. It sets no timer: the one that is set looks at the deadline."""
        self._deadline_ms = max(self._deadline_ms, monotonic_ms + self.session_timeout_ms)

    def watch(self, turn: Turn[Stored], group_id: str, timeout_ms: int | None = None) -> None:
        """Begin its time anew, be it longer or shorter than what was left."""
        self._deadline_ms = turn.monotonic_ms + (timeout_ms or self.session_timeout_ms)
        if self._timer_ms is None or self._deadline_ms < self._timer_ms:
            self._set_timer(turn, group_id, self._deadline_ms)

    def unwatch(self, turn: Turn[Stored], group_id: str) -> None:
        """It is no member any more."""
        turn.cancel(TimerKey(SESSION, group_id, self.member_id))

    def is_overdue(self, turn: Turn[Stored], group_id: str) -> bool:
        """Its timer came: whether it was silent for too long; if not, the timer is set again."""
        waits = self.join_waiter is not None or self.sync_waiter is not None
        if waits and not self.is_new:
            # Its silence is ours: it can not say anything before it is answered.
            self._deadline_ms = max(self._deadline_ms, turn.monotonic_ms + self.session_timeout_ms)
        if self._deadline_ms <= turn.monotonic_ms:
            return True
        self._set_timer(turn, group_id, self._deadline_ms)
        return False

    def _set_timer(self, turn: Turn[Stored], group_id: str, at_ms: int) -> None:
        self._timer_ms = at_ms
        turn.schedule(TimerKey(SESSION, group_id, self.member_id), at_ms - turn.monotonic_ms)

    # --- its waiting requests ------------------------------------------------------------------

    def park_sync(self, turn: Turn[Stored], waiter: Waiter) -> None:
        """Keep the SyncGroup. An earlier one is sent off, so that nobody waits for ever."""
        self.refuse_sync(turn, ErrorCode.rebalance_in_progress)
        self.sync_waiter = waiter

    def refuse_sync(self, turn: Turn[Stored], code: ErrorCode) -> None:
        """Answer the SyncGroup that waits, if one does."""
        if self.sync_waiter is not None:
            turn.refuse(self.sync_waiter, KafkaError(code))
            self.sync_waiter = None

    # --- what it reads -------------------------------------------------------------------------

    def topics(self, protocol: str) -> frozenset[str] | None:
        """The topics of its subscription; None if its metadata is no consumer's."""
        metadata = self.protocols.get(protocol, b"")
        if self._read is None or self._read[0] != metadata:
            self._read = (metadata, _topics(metadata))
        return self._read[1]


def _topics(metadata: bytes) -> frozenset[str] | None:
    try:
        return frozenset(decode_subscription(metadata).topics)
    except DecodeError:
        return None  # The group's offsets are then kept, whatever they are of.
