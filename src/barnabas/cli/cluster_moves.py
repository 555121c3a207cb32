"""Moves of replicas carried out: begun a few at a time, watched, and counted."""

import time
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.cli.brokers import NoAnswerError
from barnabas.cli.cluster_link import (
    ALTER_REASSIGNMENTS,
    ClusterLink,
    Disk,
    sizes_of,
)
from barnabas.cli.cluster_orders import elect_preferred, reassign
from barnabas.cli.cluster_throttle import throttle, unthrottle
from barnabas.cli.output import readable_size
from barnabas.cli.progress_line import ProgressLine
from barnabas.model.errors import BarnabasError
from barnabas.operating.health import has_leader
from barnabas.operating.plan import Change, next_to_begin, under_way
from barnabas.operating.rolling import not_preferred
from barnabas.operating.snapshot import Place, Snapshot

AT_ONCE: Final = 10
"""Replicas that a broker takes in at a time: enough to be quick with small ones, and few enough
that the first are done, and count, long before the last."""
_LOOK_S: Final = 0.4
_TAKEN_BACK_S: Final = 30.0
"""A move of which nobody knows for so long was taken back by somebody else."""
_NO_ANSWER_S: Final = 60.0
_NO_TARGET_S: Final = 60.0


@dataclass(slots=True)
class Moved:
    """What was done."""

    replicas: int = 0
    partitions: int = 0
    bytes: int = 0
    leaders: int = 0
    seconds: float = 0.0

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "moved_replicas": self.replicas,
            "changed_partitions": self.partitions,
            "moved_bytes": self.bytes,
            "moved_leaders": self.leaders,
            "seconds": round(self.seconds, 3),
        }

    def sentence(self) -> str:
        """For people."""
        rate = f", {readable_size(int(self.bytes / self.seconds))}/s" if self.bytes else ""
        return (
            f"{self.replicas} replicas and {self.leaders} leaders moved, "
            f"{readable_size(self.bytes)} in {self.seconds:.1f} s{rate}"
        )


@dataclass(slots=True)
class _Watch:
    """One move, from its order on."""

    change: Change
    asked_s: float = field(default_factory=time.monotonic)
    there_s: float = field(default_factory=time.monotonic)
    """When all who shall take a copy were last seen."""
    size: int = 0


class Mover:
    """Carries plans out over one link; what it has done is in `moved`."""

    def __init__(
        self,
        link: ClusterLink,
        rate: int | None,
        progress: ProgressLine,
        check_ours: Callable[[], None],
    ) -> None:
        """`check_ours` raises when another command has taken over."""
        self._link = link
        self._check_ours = check_ours
        self._rate = rate
        self._progress = progress
        self._begun: dict[Place, _Watch] = {}
        self._total = 0
        self._heard_s = time.monotonic()
        self.moved = Moved()
        self.ended: set[Place] = set()
        """The partitions whose moves were seen to end."""

    def run(self, plan: Collection[Change]) -> None:
        """Return when everything is where it shall be, also what somebody had begun before."""
        began = time.monotonic()
        snapshot = self._link.snapshot(moves_needed=True)
        sizes = sizes_of(snapshot, self._link.disks(snapshot.brokers))
        planned = {each.place for each in plan}
        going_on = [each for each in under_way(snapshot, sizes) if each.place not in planned]
        self._total = sum(each.bytes for each in (*plan, *going_on))
        if self._rate is None:
            unthrottle(self._link, snapshot)
        else:
            throttle(self._link, [*plan, *going_on], snapshot.brokers, self._rate)
        self._begun = {each.place: _Watch(each) for each in going_on}
        waiting = list(plan)
        while waiting or self._begun:
            self._check_ours()
            ready = next_to_begin(waiting, [each.change for each in self._begun.values()], AT_ONCE)
            self._begin(ready)
            waiting = [each for each in waiting if each not in ready]
            self._look(len(waiting))
        unthrottle(self._link, snapshot)
        self.moved.seconds += time.monotonic() - began

    def _begin(self, changes: list[Change]) -> None:
        if changes:
            refused = reassign(self._link, {each.place: each.after for each in changes})
            if refused:
                raise BarnabasError(refused[0])
            self._begun |= {each.place: _Watch(each) for each in changes}

    def _look(self, waiting: int) -> None:
        """See what has ended, and tell how far the rest is."""
        try:
            snapshot = self._link.snapshot(moves_needed=True)
            copies = any(each.change.adding for each in self._begun.values())
            disks = self._link.disks(self._targets(snapshot)) if copies else {}
            self._heard_s = time.monotonic()
        except NoAnswerError:
            if time.monotonic() - self._heard_s > _NO_ANSWER_S:
                raise
            time.sleep(_LOOK_S)
            return
        for watch in list(self._begun.values()):
            watch.size = max(watch.size, _copied(watch.change, disks))
            if self._has_ended(watch, snapshot):
                self._count(watch)
                del self._begun[watch.change.place]
        self._tell(waiting)
        if self._begun:
            time.sleep(_LOOK_S)

    def _targets(self, snapshot: Snapshot) -> set[int]:
        adding = {each for watch in self._begun.values() for each in watch.change.adding}
        return adding & snapshot.brokers.keys()

    def _has_ended(self, watch: _Watch, snapshot: Snapshot) -> bool:
        place, change = watch.change.place, watch.change
        topic = snapshot.topics.get(place.topic)
        facts = topic.partitions.get(place.number) if topic else None
        if facts is None:
            return True  # The topic was deleted.
        if place in snapshot.moving:
            watch.asked_s = time.monotonic()
            self._check_targets(watch, snapshot)
            return False
        if facts.replicas == change.after:
            return True
        if time.monotonic() - watch.asked_s > _TAKEN_BACK_S:
            raise BarnabasError(
                f"{place} stays on {','.join(map(str, facts.replicas))}, because somebody has "
                "taken its move back or has asked for another: run the command again."
            )
        return False

    def _check_targets(self, watch: _Watch, snapshot: Snapshot) -> None:
        """BarnabasError when a broker that shall take a copy is away for long."""
        away = sorted(set(watch.change.adding) - snapshot.brokers.keys())
        if not away:
            watch.there_s = time.monotonic()
        elif time.monotonic() - watch.there_s > _NO_TARGET_S:
            raise BarnabasError(
                f"{watch.change.place} waits for broker {away[0]}, which is away: start broker "
                f"{away[0]} and run this again, or take the moves back with --cancel."
            )

    def _count(self, watch: _Watch) -> None:
        self.ended.add(watch.change.place)
        self.moved.partitions += 1
        self.moved.replicas += len(watch.change.adding)
        self.moved.bytes += watch.size

    def _tell(self, waiting: int) -> None:
        done = self.moved.bytes + sum(each.size for each in self._begun.values())
        total = max(self._total, done)
        self._progress.show(
            f"{len(self._begun)} moves under way, {waiting} to come: {readable_size(done)} of "
            f"{readable_size(total)}",
            done / total if total else None,
        )

    def elect(self, wanted: Container[Place] | None = None) -> None:
        """These partitions, or all, are led by their first replica from now on, where that is in
        sync.
        """
        began = time.monotonic()
        places = [
            place
            for place in not_preferred(self._link.snapshot())
            if wanted is None or place in wanted
        ]
        elect_preferred(self._link, places)
        self.moved.leaders += len(places)
        self.moved.seconds += time.monotonic() - began


def _copied(change: Change, disks: Mapping[int, Disk]) -> int:
    return sum(disks[each].sizes.get(change.place, 0) for each in change.adding if each in disks)


def check_can_move(link: ClusterLink, snapshot: Snapshot) -> None:
    """BarnabasError when nothing can be moved now."""
    if not link.any(lambda broker: broker.speaks(ALTER_REASSIGNMENTS)):
        raise BarnabasError(
            "The brokers can not move replicas (AlterPartitionReassignments): update them first."
        )
    offline = [place for place, facts in snapshot.partitions() if not has_leader(facts, snapshot)]
    if offline:
        raise BarnabasError(
            f"{len(offline)} partitions are offline, such as {offline[0]}, and can not be copied: "
            "bring their brokers back first (`barnabas cluster status` names them)."
        )


@dataclass(frozen=True, slots=True)
class TakenBack:
    """How many moves ended where they began, and what was said of those that did not."""

    count: int
    refused: list[str]


def take_back(link: ClusterLink, snapshot: Snapshot) -> TakenBack:
    """Every move under way ends where it began if it can, and no throttle stays."""
    moving = list(snapshot.moving)
    refused = reassign(link, dict.fromkeys(moving)) if moving else []
    unthrottle(link, snapshot)
    return TakenBack(len(moving) - len(refused), refused)
