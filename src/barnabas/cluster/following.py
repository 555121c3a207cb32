"""How a broker keeps up with the cluster, and keeps its own part of it going.

One turn after the other: what the store says is read, the view becomes the newest, and whoever
holds the office of controller decides what follows from that. Watches only say that it is time to
look; a turn that fails is taken again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.cluster import announcements, commits, layout, loading
from barnabas.cluster.announcements import Announcement, Heard
from barnabas.cluster.changes import Decision, R, Write
from barnabas.cluster.controller import decide_balance, decide_elections
from barnabas.cluster.entrance import check_cluster
from barnabas.cluster.errors import NotControllerError
from barnabas.cluster.image import BrokerNode, Image
from barnabas.cluster.membership import Membership
from barnabas.cluster.mending import leftovers
from barnabas.cluster.office import RETRY_S, Office
from barnabas.cluster.reading import Reading
from barnabas.cluster.view import View
from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import (
    BadVersionError,
    Coordination,
    CoordinationError,
    CoordinationLostError,
    Delete,
    Op,
    SessionEvent,
)

_log = logging.getLogger(__name__)

_SESSIONS_PATIENT: Final = 3
"""For so many sessions whatever is in the way of following may go away by itself."""

_OWN_REMEMBERED: Final = 1024
"""Commits of our own whose change node we may not have come across yet."""


@dataclass(slots=True)
class _Due:
    """What there is to look at."""

    changes: bool = False
    brokers: bool = False
    controller: bool = False
    everything: bool = False

    def add(self, other: "_Due") -> None:
        self.changes |= other.changes
        self.brokers |= other.brokers
        self.controller |= other.controller
        self.everything |= other.everything


class Following:
    """One broker's part in the cluster: registered, up to date, and controller if need be."""

    def __init__(
        self,
        coordination: Coordination,
        view: View,
        reading: Reading,
        office: Office,
        membership: Membership,
        failed: Callable[[str], None],
    ) -> None:
        self.office = office
        self.joined = False
        """Whether this broker is registered in its present session, and has read what is so."""
        self.leaving = False
        self._coordination = coordination
        self._view = view
        self._reading = reading
        self._membership = membership
        self._tell_failed = failed
        self._lock = asyncio.Lock()
        self._heard = Heard()
        self._own: dict[str, None] = {}
        self._commits = 0
        self._due = _Due()
        self._news = asyncio.Event()
        self._over = True
        self._checked_in = 0
        """The session in which the store was seen to be the right one."""
        self._failed = False
        self._ended = False
        self._entered = 0
        """The term of office in which this broker has read and mended everything, if any."""
        self._decided_for: Mapping[int, BrokerNode] | None = None
        """The live brokers at the last decision about all partitions."""
        self._complaint = ""
        self._failing_since: float | None = None
        """When the first of all turns failed that have failed since one was taken, each although
        the store has answered."""
        self._again: asyncio.TimerHandle | None = None
        """The next attempt, after one that has failed."""
        self._task: asyncio.Task[None] | None = None
        self._balancing: asyncio.TimerHandle | asyncio.Task[None] | None = None
        coordination.listen(self._session_event)

    async def open(self) -> None:
        """Begin a session, unless there is one."""
        if self._over:
            self._over = False
            try:
                await self._coordination.open()
            except BaseException:
                self._over = True
                raise

    async def load(self) -> None:
        """Read everything, before this broker takes part."""
        image, _ = await self._reading.everything(self._heard)
        self._view.load(image)
        self._checked_in = self._coordination.session

    async def join(self) -> None:
        """Register, run for the office, and read everything anew."""
        async with self._lock:
            await self._join()

    async def _join(self) -> None:
        await self._check_store()
        await self._membership.register()
        if not self.leaving:
            await self.office.run_for()
        await self._load()
        # An answer may be heard of after the end of the session that it came in.
        self.joined = not self._over

    async def _check_store(self) -> None:
        """While there was no session, the store may have lost everything, or become another one.
        Whoever took that for the truth would remove the topics that are not in it."""
        session = self._coordination.session
        if session != self._checked_in:
            await check_cluster(self._coordination, self._view.image.cluster_id)
            self._checked_in = session

    def begin(self) -> None:
        """Keep up from now on."""
        self._coordination.watch(layout.CHANGES, lambda: self._look_at(_Due(changes=True)))
        self._coordination.watch(layout.BROKER_IDS, lambda: self._look_at(_Due(brokers=True)))
        self._coordination.watch(layout.CONTROLLER, lambda: self._look_at(_Due(controller=True)))
        self._task = asyncio.get_running_loop().create_task(self._keep_up())
        self._task.add_done_callback(self._stopped)
        # What happened between reading and watching.
        self._look_at(_Due(changes=True, brokers=True, controller=True))

    async def end(self, wait_s: float) -> None:
        """Finish what has begun, if that is possible in time, and begin nothing more."""
        if self._ended:
            return
        self._ended = True
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await asyncio.wait_for(self._lock.acquire(), wait_s)
        except TimeoutError:
            _log.warning("What the controller had begun is left to the next one.")

    def stop(self) -> None:
        """Begin nothing more, and drop what was only being followed."""
        self.office.closed = True
        for timer in (self._balancing, self._again):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def change(
        self, decide: Callable[[Image], Decision[R]], *, validate_only: bool = False
    ) -> tuple[list[R], list[Awaitable[None]]]:
        """Decide as the controller, and carry it out; with what is still on its way here."""
        self.office.require()
        async with self._lock:
            while True:
                self.office.require()
                before = self._view.image
                decision = decide(before)
                if validate_only or not decision.writes:
                    return decision.results, []
                told = await self._carry_out(before, decision)
                if told is not None:
                    return decision.results, told

    def next_mark(self) -> str:
        """A name for a commit of our own."""
        self._commits += 1
        return f"{self._coordination.session:x}.{self._commits}"

    def is_done(self, mark: str) -> None:
        """That commit is in the view: its change node tells us nothing."""
        self._own[mark] = None
        if len(self._own) > _OWN_REMEMBERED:
            del self._own[next(iter(self._own))]

    async def announce_leaving(self) -> None:
        """Say that this broker is about to stop, and see that it is followed here too."""
        self.leaving = True
        await self._membership.announce_leaving()
        self._look_at(_Due(changes=True, brokers=True))

    def _look_at(self, due: _Due) -> None:
        self._due.add(due)
        self._news.set()

    def _session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.OVER:
            self._over = True
            self.joined = False
            self.office.resign()
            _log.warning("The session with the cluster's store is over; beginning another.")
        self._news.set()

    async def _keep_up(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                async with self._lock:
                    await self._turn()
            except (CoordinationLostError, NotControllerError):
                self._failing_since = None
                self._later()
            except (CoordinationError, BarnabasError) as error:
                self._complain(str(error))
                self._later()
            else:
                self._complaint, self._failing_since = "", None

    def _complain(self, problem: str) -> None:
        """Once, though it is tried again ten times a second."""
        if problem != self._complaint:
            _log.warning("Following the cluster failed and is tried again: %s", problem)
        self._complaint = problem
        if self._failing_since is None:
            self._failing_since = asyncio.get_running_loop().time()

    @property
    def complaint(self) -> str:
        """What has been in the way of following for long, though the store answers; else nothing.

        It is told, and ends nobody: what is wrong in the store is so for all brokers, and those
        who lead can go on.
        """
        if self._failing_since is None or not self.joined:
            return ""
        patience_s = _SESSIONS_PATIENT * self._coordination.session_timeout_s
        is_long = asyncio.get_running_loop().time() - self._failing_since >= patience_s
        return self._complaint if is_long else ""

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            _log.critical("Following the cluster has ended.", exc_info=task.exception())
            self._fail(f"Following the cluster has ended: {task.exception()!r}.")

    def _later(self) -> None:
        """Try again soon; once, however many attempts have failed meanwhile."""
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._again = None
        self._news.set()

    async def _turn(self) -> None:
        if self._failed:
            return
        await self.open()
        if not self.joined:
            await self._join_again()
            return
        due, self._due = self._due, _Due()
        try:
            await self._look(due)
        except BaseException:
            self._due.add(due)
            raise

    async def _join_again(self) -> None:
        try:
            await self._check_store()
            await self._membership.register()
        except BarnabasError as error:
            self._fail(str(error))
        else:
            await self._join()

    async def _look(self, due: _Due) -> None:
        if due.controller and not (self.leaving and not self.office.held):
            await self.office.run_for()
        if due.everything:
            await self._load()
            return
        is_new = self.office.held and self.office.epoch != self._entered
        if is_new:
            self._decided_for = None
        if due.controller:
            self._view.found_controller(*await self._reading.controller())
        names = await self._reading.changes()
        unheard = self._heard.unheard(names)
        said = None if unheard is None else await self._reading.announced(unheard)
        if unheard is None or said is None:
            await self._load()
            return
        news = announcements.together(each for each in said if each.by not in self._own)
        await self._follow(news, brokers=due.brokers or is_new)
        self._heard.heard(unheard)
        for each in said:
            self._own.pop(each.by, None)
        if is_new:
            # After the leaders: to look through thousands of topics takes seconds.
            await self._load()
        elif self.office.held:
            await self._tidy(names)

    async def _follow(self, told: Announcement, *, brokers: bool) -> None:
        if brokers or told.brokers:
            await self._follow_brokers()
        found = await self._reading.overrides(told, self._view.image.broker_overrides)
        if found is not None:
            self._view.found_overrides(*found)
        image = self._view.image
        topics = await self._reading.topics(told, image.topics, image.config)
        self._view.found_topics(topics)
        if self.office.held:
            await self._govern(topics)

    async def _follow_brokers(self) -> None:
        found = await self._reading.brokers()
        mine = self._membership.node
        if mine.id not in found or found[mine.id].epoch != mine.epoch:
            if not await self._membership.is_confirmed():
                self._fail(
                    f"Another process has registered as broker {mine.id} with a copy of this data "
                    "directory; stop one of them."
                )
                return
            found = await self._reading.brokers()
        self._view.found_brokers(found)

    def _fail(self, reason: str) -> None:
        """This broker can be no part of the cluster any more: somebody must see to it."""
        _log.critical("%s", reason)
        self.office.resign()
        self.joined = False
        self._failed = True
        self._tell_failed(reason)

    async def _load(self) -> None:
        image, tree = await self._reading.everything(self._heard)
        self._view.load(image)
        if self.office.held:
            await self._mend(tree)
            await self._govern(None)
            self._entered = self.office.epoch

    async def _mend(self, tree: loading.Tree) -> None:
        for piece in commits.cut([Write([], before=leftovers(tree))]):
            await self.office.commit(piece.operations)

    async def _govern(self, topics: Collection[str] | None) -> None:
        """Decide who leads, until there is nothing left to decide.

        `topics`: only there, if the brokers are those of the last decision about everything. (An
        attempt at that may have been cut off after the brokers were known.)
        """
        while True:
            before = self._view.image
            some = topics if before.brokers == self._decided_for else None
            decision = decide_elections(before, some, self.office.epoch)
            if not decision.writes:
                break
            await self._carry_out(before, decision)
        self._decided_for = before.brokers
        self._set_balancing()

    async def _carry_out(
        self, before: Image, decision: Decision[R]
    ) -> list[Awaitable[None]] | None:
        """Store a decision and make it the view; None: something had changed, decide again."""
        done = 0
        marks = []
        try:
            for piece in commits.cut(decision.writes):
                mark = self.next_mark()
                await self.office.commit([*piece.operations, *self._announced(piece, mark)])
                marks.append(mark)
                done += 1
        except BadVersionError:
            await self._refresh(decision.writes)
            return None
        except (CoordinationError, NotControllerError) as error:
            # Who is refused knows the store as something that it is not.
            unknown = done > 0 or isinstance(error, CoordinationError)
            self._look_at(_Due(controller=True, everything=unknown))
            raise
        for mark in marks:
            self.is_done(mark)
        return self._view.carried_out(before, decision.image)

    def _announced(self, piece: commits.Piece, mark: str) -> list[Op]:
        return [announcements.of_writes(piece.writes, mark).operation()] if piece.writes else []

    async def _refresh(self, writes: Sequence[Write]) -> None:
        """Read the states again that these were about to change."""
        told = Announcement(partitions=announcements.of_writes(writes, "").partitions)
        image = self._view.image
        self._view.found_topics(await self._reading.topics(told, image.topics, image.config))

    async def _tidy(self, names: Sequence[str]) -> None:
        old: list[Op] = [
            Delete(f"{layout.CHANGES}/{name}") for name in announcements.outdated(names)
        ]
        for piece in commits.cut([Write([], after=old)]):
            await self.office.commit(piece.operations)

    def _set_balancing(self) -> None:
        """From time to time leaders go back to where they should be, where there are several."""
        controller = self._view.image.config.controller
        several = len(self._view.image.brokers) > 1
        if self._balancing is None and several and controller.auto_leader_rebalance:
            loop = asyncio.get_running_loop()
            self._balancing = loop.call_later(controller.imbalance_check_s, self._balance)

    def _balance(self) -> None:
        self._balancing = asyncio.get_running_loop().create_task(self._balance_now())

    async def _balance_now(self) -> None:
        try:
            await self.change(lambda image: decide_balance(image, self.office.epoch))
        except NotControllerError:
            _log.debug("Leaders are another controller's to balance.")
        except (CoordinationError, CoordinationLostError, BarnabasError) as error:
            _log.warning("Leaders were not balanced, and are at the next opportunity: %s", error)
        except Exception:  # noqa: BLE001 - it is told, and must not end the balancing
            _log.exception("A defect in balancing leaders, which is tried again.")
        self._balancing = None
        if self.office.held:
            self._set_balancing()
