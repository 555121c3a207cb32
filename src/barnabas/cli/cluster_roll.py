"""`cluster roll`: brokers restarted one after another, each only when the others can do without."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from barnabas.cli.brokers import NoAnswerError
from barnabas.cli.cluster_life import Life
from barnabas.cli.cluster_link import ClusterLink, ask_metadata, no_such_broker
from barnabas.cli.cluster_lock import OperatorLock
from barnabas.cli.cluster_orders import elect_preferred
from barnabas.cli.cluster_restarts import Restart, restart_by_command, restart_by_pid
from barnabas.cli.output import note, print_json
from barnabas.cli.progress_line import ProgressLine
from barnabas.model.errors import BarnabasError
from barnabas.operating.rolling import needs, next_broker, not_preferred, out_of_sync, under_min_isr
from barnabas.operating.snapshot import BrokerFacts, Snapshot

_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class RollChoice:
    """What the operator chose."""

    bootstrap: str
    data: str
    command: str | None
    only: list[int]
    timeout_s: float
    allow_pause: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class Restarted:
    """One broker, and how long it took."""

    broker: int
    was_controller: bool
    seconds_away: float
    """From the order to restart until it answers again."""
    seconds_in_sync: float
    """From then on until every replica is in sync."""


def run_roll(choice: RollChoice) -> None:
    """`cluster roll`."""
    with ClusterLink(choice.bootstrap) as link:
        _check(link, link.snapshot(moves_needed=True), choice.only)
        with OperatorLock(choice.bootstrap, "roll") as lock, ProgressLine() as progress:
            # Another command may have ended meanwhile, and left moves behind.
            snapshot = link.snapshot(moves_needed=True)
            _check(link, snapshot, choice.only)
            restart = (
                restart_by_pid(choice.data, snapshot.cluster_id)
                if choice.command is None
                else restart_by_command(choice.command, choice.timeout_s)
            )
            roll = _Roll(link, restart, choice, progress, lock.check)
            with _told_who_was_restarted(roll):
                roll.run(set(choice.only) or set(snapshot.brokers))
    if choice.as_json:
        print_json(
            {
                "restarted": [asdict(each) for each in roll.done],
                "moved_leaders": roll.leaders,
                "seconds": round(roll.seconds, 3),
            }
        )
        return
    print(
        f"{len(roll.done)} brokers restarted in {roll.seconds:.1f} s; {roll.leaders} preferred "
        "leaders lead again."
    )


@contextmanager
def _told_who_was_restarted(roll: "_Roll") -> Iterator[None]:
    """When somebody presses Ctrl-C, or something fails in the middle."""
    try:
        yield
    except (KeyboardInterrupt, BarnabasError):
        if roll.done or roll.under_way is not None:
            names = ", ".join(str(each.broker) for each in roll.done) or "none"
            last = (
                ""
                if roll.under_way is None
                else f"; broker {roll.under_way} was told to restart, and is not waited for now"
            )
            note(
                f"Stopped with these brokers restarted: {names}{last}; preferred leaders were not "
                "asked."
            )
        raise


def _check(link: ClusterLink, snapshot: Snapshot, only: list[int]) -> None:
    """BarnabasError when nobody may be restarted now, or some of these never."""
    for number in only:
        if number not in snapshot.brokers:
            raise no_such_broker(number)
    if snapshot.dead:
        raise BarnabasError(
            f"Broker {snapshot.dead[0]} is dead and holds replicas: start it, or empty it with "
            f"`barnabas cluster drain {snapshot.dead[0]}`, before others are restarted."
        )
    place = under_min_isr(snapshot, link.min_isr(snapshot.topics))
    if place is not None:
        raise BarnabasError(
            f"{place} has fewer replicas in sync than min.insync.replicas: wait until `barnabas "
            "cluster status` says healthy before anything is restarted."
        )
    if snapshot.moving:
        raise BarnabasError(
            f"{len(snapshot.moving)} partitions are being moved: wait for the end of that, or take "
            "it back with `barnabas cluster balance --cancel`, before anything is restarted."
        )


class _Roll:
    """One turn through the cluster."""

    def __init__(
        self,
        link: ClusterLink,
        restart: Restart,
        choice: RollChoice,
        progress: ProgressLine,
        check_ours: Callable[[], None],
    ) -> None:
        self._link = link
        self._check_ours = check_ours
        self._restart = restart
        self._choice = choice
        self._progress = progress
        self._expected: set[int] = set()
        self.done: list[Restarted] = []
        self.under_way: int | None = None
        """The broker that was told to restart, and was not seen in sync since."""
        self.leaders = 0
        self.seconds = 0.0

    def run(self, brokers: set[int]) -> None:
        """Restart these, the controller last."""
        began = time.monotonic()
        self._expected = set(self._link.metadata().brokers)
        total, waiting = len(brokers), set(brokers)
        while waiting:
            snapshot = self._wait_until_in_sync("before the first" if not self.done else "between")
            number = next_broker(waiting, snapshot.controller)
            self._check_ours()
            # All of them before the first: a refusal half way would help nobody.
            for each in waiting:
                self._check_not_needed(snapshot, each)
            self.done.append(self._restart_one(snapshot, number))
            self.under_way = None
            waiting.discard(number)
            if not self._choice.as_json:
                self._tell(self.done[-1], total)
        snapshot = self._wait_until_in_sync("at the end")
        places = not_preferred(snapshot)
        elect_preferred(self._link, places)
        self.leaders = len(places)
        self.seconds = time.monotonic() - began

    def _check_not_needed(self, snapshot: Snapshot, number: int) -> None:
        if self._choice.allow_pause:
            return
        place = needs(snapshot, number, self._link.min_isr(snapshot.topics))
        if place is not None:
            raise BarnabasError(
                f"{place} would take no writes while broker {number} is away: give its topic more "
                "replicas, or say --allow-pause if that does not matter."
            )

    def _restart_one(self, snapshot: Snapshot, number: int) -> Restarted:
        facts = snapshot.brokers[number]
        began = time.monotonic()
        deadline = began + self._choice.timeout_s
        with Life(facts) as life:
            self._order(facts)
            self._until(
                life.is_over,
                deadline,
                f"broker {number} is to stop",
                f"stop broker {number}",
            )
        self._until(
            lambda: self._answers(number),
            deadline,
            f"broker {number} is to start",
            f"start broker {number} again",
        )
        back = time.monotonic()
        self._wait_until_in_sync(f"after broker {number}")
        return Restarted(
            broker=number,
            was_controller=number == snapshot.controller,
            seconds_away=round(back - began, 3),
            seconds_in_sync=round(time.monotonic() - back, 3),
        )

    def _order(self, facts: BrokerFacts) -> None:
        self.under_way = facts.id
        try:
            self._restart(facts)
        except BarnabasError:
            self.under_way = None  # The error itself says what became of it.
            raise

    def _answers(self, number: int) -> bool:
        """Whether it serves, and others know that it is back."""
        try:
            if number not in self._link.metadata().brokers:
                return False
            # A link from before the restart is not enough: it has to say something.
            return number in self._link.one(number, ask_metadata).brokers
        except NoAnswerError:
            return False

    def _wait_until_in_sync(self, when: str) -> Snapshot:
        """What all brokers tell alike: all replicas of all partitions are in sync."""
        found: list[Snapshot] = []

        def is_so() -> bool:
            try:
                told = self._link.snapshots()
            except NoAnswerError:
                return False
            if set(told) != self._expected:
                return False
            first, *others = told.values()
            same = all(
                (each.topics, each.brokers) == (first.topics, first.brokers) for each in others
            )
            if not same or first.moving or out_of_sync(first) is not None:
                return False
            found.append(first)
            return True

        deadline = time.monotonic() + self._choice.timeout_s
        self._until(is_so, deadline, f"waiting for all replicas {when}", "be in sync everywhere")
        return found[-1]

    def _until(self, is_so: Callable[[], bool], deadline: float, what: str, hope: str) -> None:
        while not is_so():
            if time.monotonic() > deadline:
                raise BarnabasError(
                    f"It took more than {self._choice.timeout_s:g} s to {hope}: nothing else was "
                    "restarted; look at `barnabas cluster status`, and run this again."
                )
            self._progress.show(f"{len(self.done)} restarted; {what}")
            time.sleep(_LOOK_S)

    def _tell(self, done: Restarted, total: int) -> None:
        self._progress.say(
            f"broker {done.broker} is back after {done.seconds_away:.1f} s, everything in sync "
            f"after {done.seconds_in_sync:.1f} s more ({len(self.done)} of {total})"
        )
