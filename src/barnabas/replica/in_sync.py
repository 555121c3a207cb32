"""What the leader of a partition knows of its followers, and what follows from it.

Pure state, of one leader epoch: when the epoch changes, it is made anew. So everything that is
known here was said by followers of this very epoch (KIP-320), and their logs match the leader's up
to the offset they said.

The ISR is changed by a write to the store that takes a while and whose outcome can be unknown.
Until it is known, both the old members and the new ones count (the *maximal* ISR): a record is
committed only when all of them have it, so that whichever of the two is stored, its members have
every committed record.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.cluster.elections import needed
from barnabas.cluster.image import BrokerNode, PartitionState

UNKNOWN: Final = -1
"""A follower that has not fetched in this epoch: it may have anything."""


@dataclass(slots=True)
class Follower:
    """One follower, as its fetches show it."""

    caught_up_s: float
    """When it last had all that there was."""
    end_offset: int = UNKNOWN
    """Where its log ends: it fetches from there."""
    start_offset: int = UNKNOWN
    """Where its log begins."""
    broker_epoch: int = UNKNOWN
    """Of the life in which it fetched last."""
    fetched_s: float = 0.0
    leader_end: int = 0
    """Where the leader's log ended when it fetched last."""


class InSync:
    """The followers of one partition, and who of them counts."""

    __slots__ = ("_followers", "_me", "epoch_start", "proposed", "state")

    def __init__(self, me: int, state: PartitionState, end_offset: int, now_s: float) -> None:
        self._me = me
        self.state = state
        """As it is stored, to the best of our knowledge."""
        self.proposed: tuple[int, ...] | None = None
        """An ISR that is being written, or whose write has an unknown outcome."""
        self.epoch_start = end_offset
        """Where the leader's log ended when its epoch began."""
        self._followers = {each: Follower(now_s) for each in state.replicas if each != me}

    @property
    def maximal(self) -> tuple[int, ...]:
        """Everybody who may be in the stored ISR."""
        proposed = self.proposed or ()
        return (*self.state.isr, *(each for each in proposed if each not in self.state.isr))

    def follower(self, broker: int) -> Follower | None:
        """What is known of a follower; None if it is none."""
        return self._followers.get(broker)

    def epochs_of(self, brokers: Collection[int]) -> dict[int, int]:
        """In which lives these followers have fetched."""
        return {each: self._followers[each].broker_epoch for each in sorted(brokers)}

    def outsiders(self, now_s: float, lag_max_s: float) -> list[int]:
        """Followers that have fetched in this epoch, not long ago, and are not in the ISR."""
        return [
            broker
            for broker, follower in self._followers.items()
            if broker not in self.state.isr
            and follower.end_offset != UNKNOWN
            and now_s - follower.fetched_s <= lag_max_s
        ]

    def min_isr(self, configured: int) -> int:
        """How many members it takes to commit: no more than there are replicas, of which those that
        are being added are none yet. (Elections count by the same: whoever leaves an ISR that
        is too small has everything.)"""
        return needed(self.state, configured)

    def has_enough(self, configured: int) -> bool:
        """Whether the ISR is large enough for records to be committed.

        As long as others are eligible it is not: whoever wrote that knows of a higher minimum than
        has been heard of here, and may elect them.
        """
        return self.has_enough_by(configured) and not self.state.eligible

    def has_enough_by(self, configured: int) -> bool:
        """Whether it would be, were nobody else eligible."""
        return len(self.state.isr) >= self.min_isr(configured)

    # --- what happened -------------------------------------------------------------------------

    def fetched(
        self,
        broker: int,
        broker_epoch: int,
        offset: int,
        leader_end: int,
        now_s: float,
        start_offset: int = UNKNOWN,
    ) -> None:
        """A follower has everything from `start_offset` on below `offset`, and its log matches ours
        up to there."""
        follower = self._followers[broker]
        if broker_epoch < follower.broker_epoch:
            return  # Of a former life, on its way since then.
        if offset >= leader_end:
            follower.caught_up_s = now_s
        elif offset >= follower.leader_end:
            # What it had not got then, it has now: it was behind by no more than one fetch.
            follower.caught_up_s = max(follower.caught_up_s, follower.fetched_s)
        follower.end_offset, follower.start_offset = offset, start_offset
        follower.broker_epoch = broker_epoch
        follower.fetched_s, follower.leader_end = now_s, leader_end

    def is_caught_up(
        self, broker: int, broker_epoch: int, start_offset: int, leader_end: int, now_s: float
    ) -> bool:
        """Whether a member of the ISR that fetches once more from where it fetched last has
        everything: then there is nothing else to note, and this is noted."""
        follower = self._followers.get(broker)
        if (
            follower is None
            or follower.end_offset != leader_end
            or follower.start_offset != start_offset
            or follower.broker_epoch != broker_epoch
            or broker not in self.state.isr
        ):
            return False
        follower.caught_up_s = follower.fetched_s = now_s
        follower.leader_end = leader_end
        return True

    def propose(self, isr: tuple[int, ...]) -> None:
        """An ISR is about to be written."""
        self.proposed = isr

    def refused(self) -> None:
        """It was not written, and no attempt at it has an unknown outcome."""
        self.proposed = None

    def is_news(self, state: PartitionState) -> bool:
        """Whether a state tells more of this epoch than is known; what is being written is known
        better by whoever writes it."""
        return (
            self.proposed is None
            and state.leader_epoch == self.state.leader_epoch
            and state.partition_epoch > self.state.partition_epoch
        )

    def update(self, state: PartitionState, now_s: float) -> None:
        """The stored state of this leader epoch is known to be this, and no write is under way."""
        if state.replicas != self.state.replicas:
            known = self._followers
            self._followers = {
                each: known.get(each) or Follower(now_s)
                for each in state.replicas
                if each != self._me
            }
        self.state = state
        self.proposed = None

    def be_patient(self, now_s: float) -> None:
        """Nobody could catch up for a while: count from now on."""
        for follower in self._followers.values():
            follower.caught_up_s = max(follower.caught_up_s, now_s)

    # --- what follows --------------------------------------------------------------------------

    def committed(self, own_end: int, high_watermark: int, min_insync: int) -> int:
        """Where the high watermark is now; `own_end` is how far the leader's own log counts.

        It stays where it is while the ISR is too small (KIP-966): so whoever left the ISR then has
        all that is committed.
        """
        lowest = own_end
        for each in self.state.isr if self.proposed is None else self.maximal:
            if lowest <= high_watermark:
                return high_watermark
            lowest = min(lowest, self._end_of(each, own_end))
        return max(high_watermark, lowest) if self.has_enough(min_insync) else high_watermark

    def low_watermark(self, own_start: int, alive: Collection[int]) -> int:
        """Below it no replica that is there has anything any more; others learn when they come."""
        starts = [each.start_offset for broker, each in self._followers.items() if broker in alive]
        return min([own_start, *starts])

    def _end_of(self, broker: int, own_end: int) -> int:
        if broker == self._me:
            return own_end
        follower = self._followers.get(broker)
        return UNKNOWN if follower is None else follower.end_offset

    def grown(
        self, broker: int, high_watermark: int, alive: Mapping[int, BrokerNode]
    ) -> tuple[int, ...] | None:
        """The ISR with a follower that has caught up; None when it has not, or must not be in it.

        It has to be past the start of this epoch: below that it may hold what a former leader
        wrote and nobody committed. And it has to be in the life that is registered: a broker that
        came back may have lost what it had.
        """
        follower = self._followers.get(broker)
        if follower is None or broker in self.maximal or self.proposed is not None:
            return None
        node = alive.get(broker)
        if node is None or node.leaving or node.epoch != follower.broker_epoch:
            return None
        if follower.end_offset < max(high_watermark, self.epoch_start):
            return None
        members = {*self.state.isr, broker}
        return tuple(each for each in self.state.replicas if each in members)

    def shrunk(self, own_end: int, now_s: float, lag_max_s: float) -> tuple[int, ...] | None:
        """The ISR without followers that have been behind for too long; None if there are none."""
        if self.proposed is not None:
            return None
        kept = tuple(
            each
            for each in self.state.isr
            if each == self._me or not self._lags(each, own_end, now_s, lag_max_s)
        )
        return None if kept == self.state.isr else kept

    def _lags(self, broker: int, own_end: int, now_s: float, lag_max_s: float) -> bool:
        follower = self._followers.get(broker)
        if follower is None:
            return True
        return follower.end_offset < own_end and now_s - follower.caught_up_s > lag_max_s
