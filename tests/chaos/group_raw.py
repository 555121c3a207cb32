"""What raw members of both kinds of groups do alike: read, commit, come and go.

A raw member knows exactly what it was answered, and under which generation or epoch. Whatever
happens to its connection, it goes on with what it knows, as a client does.
"""

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from tests.chaos import group_asks, talk
from tests.chaos.group_asks import AWAY
from tests.chaos.group_journal import GroupJournal
from tests.chaos.group_moments import Moments, Phase
from tests.chaos.load import Worker
from tests.chaos.talk import Place

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch

_PAUSE_S: Final = 0.02
_STAYS_S: Final = (0.3, 1.5)
_AWAY_S: Final = (0.0, 0.2)
_FETCH_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class Stage:
    """What all members have in common."""

    address: tuple[str, int]
    journal: GroupJournal
    moments: Moments
    calm: threading.Event
    """While it is set nobody leaves."""
    places: tuple[Place, ...]
    """What every group reads."""
    names: Mapping[UUID, str]
    """Topics by their ids."""

    @property
    def bootstrap_servers(self) -> str:
        """The same for clients that find their way by themselves."""
        return "{}:{}".format(*self.address)

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of the topics."""
        return tuple(group_asks.by_topic(self.places))


class RawMember(Worker):
    """One member after another, each with an id of its own, in one thread."""

    def __init__(self, group: str, number: int, stage: Stage, seed: str) -> None:
        super().__init__(f"{group}.{number}", stage.journal)
        self.group = group
        self.stage = stage
        self.notes = stage.journal
        self.random = random.Random(f"{seed}/{self.name}")
        self.member_id = ""
        self.generation = -1
        self.owned: set[Place] = set()
        self.present = False
        """Whether it is a member with nothing left to do but to go on."""
        self._positions: dict[Place, int] = {}
        self._link: Link | None = None
        self._leaves_at = 0.0

    # --- the connection ------------------------------------------------------------------------

    def work(self) -> None:
        while not self.stopping.is_set():
            try:
                self.live()
            except OSError:
                # The broker is dead, or just dying; the next life is soon.
                self.hang_up()
                time.sleep(_PAUSE_S)
        self._say_goodbye()
        self.hang_up()

    def live(self) -> None:
        """One step: join, or read and commit, or leave. OSError when nobody answers."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the group for good. OSError when nobody answers."""
        raise NotImplementedError

    def _say_goodbye(self) -> None:
        """Several times if need be: whoever is not told waits for a member that is not there."""
        while self.member_id:
            try:
                self.leave()
            except OSError:
                self.hang_up()
                if not self.broker_may_return():
                    return
                time.sleep(_PAUSE_S)

    def broker_may_return(self) -> bool:
        """Whether a connection is to be had."""
        try:
            self.link()
        except OSError:
            return False
        return True

    def link(self) -> Link:
        """The connection; opened on demand."""
        if self._link is None:
            self._link = Link(*self.stage.address, timeout_s=30.0)
        return self._link

    def hang_up(self) -> None:
        """Let go of the connection."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def ask(self, key: int, body: Mapping[str, Any], phase: Phase | None = None) -> Any:
        """Ask, and tell of the moment in which the answer has not come yet."""

        began = time.perf_counter()

        def asked() -> None:
            if phase is not None:
                self.stage.moments.at(phase)

        answer = group_asks.ask(self.link(), key, body, asked)
        if phase is not None:
            self.stage.moments.took(phase, time.perf_counter() - began)
        return answer

    def refused(self, code: ErrorCode, *expected: ErrorCode) -> bool:
        """Whether the answer is a no; one that nobody expects here is a problem."""
        if code in AWAY:
            time.sleep(_PAUSE_S)
        elif code not in (*expected, ErrorCode.none):
            self.journal.complain(f"{self.name}: {code.name}")
            time.sleep(_PAUSE_S)
        return code is not ErrorCode.none

    # --- coming and going ----------------------------------------------------------------------

    def has_come(self) -> None:
        """It is a member now, for some time."""
        self.present = True
        self._leaves_at = time.monotonic() + self.random.uniform(*_STAYS_S)

    @property
    def is_leaving(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() > self._leaves_at and not self.stage.calm.is_set()

    def stay_away(self) -> None:
        """Between two memberships."""
        self.present = False
        self.stopping.wait(self.random.uniform(*_AWAY_S))

    # --- reading and committing ----------------------------------------------------------------

    def begin_where_the_group_is(self, epoch: int = -1) -> bool:
        """Positions of what is newly owned; False when that was not answered."""
        fresh = self.owned - self._positions.keys()
        if not fresh:
            return True
        floors = self.notes.floors(self.group)
        who = self.member_id if epoch >= 0 else None
        found = group_asks.committed(self.link(), self.group, who, epoch)
        if isinstance(found, ErrorCode):
            self.refused(found, ErrorCode.stale_member_epoch)
            return False
        self.notes.fetch(self.group, floors, found)
        for place in fresh:
            self._positions[place] = found[place].offset if place in found else 0
        return True

    def forget(self, gone: set[Place]) -> None:
        """Read these partitions no more."""
        self.owned -= gone
        for place in gone:
            self._positions.pop(place, None)

    def read_and_commit(self) -> None:
        """Take what is there of each partition, then say so."""
        before = dict(self._positions)
        for place in sorted(self.owned):
            self._read(place)
        fresh = {place: at for place, at in self._positions.items() if before.get(place) != at}
        if fresh:
            self.commit(fresh)
        time.sleep(_PAUSE_S)

    def _read(self, place: Place) -> None:
        data = talk.fetch(self.link(), place, self._positions[place], _FETCH_BYTES)
        for position, _ in walk(data):
            for record in decode_batch(data, position):
                if record.offset >= self._positions[place]:
                    self.notes.consume(self.group, place, record.offset)
                    self._positions[place] = record.offset + 1

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """What is refused is committed by whoever owns the partition next."""
        newest = self.notes.newest_generation(self.group)
        self.notes.try_commit(self.group, offsets)
        body = group_asks.commit_body(self.group, self.member_id, self.generation, offsets)
        answer = self.ask(group_asks.OFFSET_COMMIT, body, Phase.COMMITTING)
        results = group_asks.commit_results(answer)
        done = {place: offsets[place] for place, code in results.items() if code is ErrorCode.none}
        if done:
            self.notes.commit(self.group, done, self.generation, newest)
        for code in set(results.values()):
            self.refused(
                code,
                ErrorCode.rebalance_in_progress,
                ErrorCode.illegal_generation,
                ErrorCode.unknown_member_id,
                ErrorCode.stale_member_epoch,
            )
