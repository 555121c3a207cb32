"""How a part comes to its end: everybody finishes, everything is read once more, and compared."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tests.chaos import group_asks, talk
from tests.chaos.cluster.alarms import parted_servers
from tests.chaos.cluster.crowd import GROUPS, ONCE, PLACES, Crowd
from tests.chaos.cluster.hosting import BROKERS, Rig
from tests.chaos.cluster.replicas import differences, set_aside
from tests.chaos.copier import GROUP, INPUT, OUTPUT
from tests.chaos.copy_lives import compare_copy
from tests.chaos.history_readers import READ_COMMITTED, READ_UNCOMMITTED, GroupReader, RawReader
from tests.chaos.talk import Place
from tests.failover.stage import coordinator_of

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode
from barnabas.testing.metadata import ask_metadata
from barnabas.wire.records.record import Record

REPLICAS_DIFFER: Final = "replicas differ"
_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.1
_ANSWER_S: Final = 10.0
_INTERNAL: Final = {"__consumer_offsets", "__transaction_state"}
_COMPACTED: Final = {"kept", *_INTERNAL}
_SOURCES: Final = [place for place in PLACES if place[0] == INPUT]


class Ending:
    """Everything is healed when this begins."""

    def __init__(self, rig: Rig, crowd: Crowd) -> None:
        self._rig = rig
        self._crowd = crowd
        self._complain = crowd.journal.complain
        self._copied = GroupReader(crowd.recorder, "copiers' group", GROUP, _SOURCES)
        self._reached: dict[Place, int] = {}
        """Where the final readers came to."""
        self.in_sync_s = 0.0

    def come(self) -> None:
        """To the end, as far as one comes."""
        began = time.monotonic()
        try:
            self._rig.wait_until_in_sync(60.0)
        except TimeoutError as error:
            self._complain(str(error))
        self.in_sync_s = time.monotonic() - began
        crowd = self._crowd
        crowd.calm.set()
        for writer in (*crowd.writers, crowd.feeder):
            writer.stopping.set()
        for writer in (*crowd.writers, crowd.feeder):
            writer.end()
        self._patiently(self._unsettled, "no transaction stays open")
        self._patiently(self._uncopied, "the copiers come to the end of their input")
        crowd.stop_copiers()
        self._patiently(self._unsettled, "no transaction stays open")
        self._patiently(self._unread, "the groups come to the end")
        for worker in (*crowd.members, *crowd.readers):
            worker.end()
        self._read_everything()
        self._compare_replicas()

    def look_at_groups(self) -> None:
        """Their offsets are compared with what was acknowledged; now, if somebody tells them."""
        journal = self._crowd.journal
        for group in GROUPS:
            with contextlib.suppress(OSError, TimeoutError), self._coordinator(group) as link:
                floors = journal.floors(group)
                found = group_asks.committed(link, group)
                if not isinstance(found, ErrorCode):
                    journal.fetch(group, floors, found)
        with contextlib.suppress(OSError, TimeoutError), self._coordinator(GROUP) as link:
            self._copied.read(link)

    # --- waiting -------------------------------------------------------------------------------

    def _patiently(self, still_lacking: Callable[[], str | None], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            self._crowd.tend()
            try:
                lacking = still_lacking()
            except (OSError, TimeoutError, talk.RefusedError) as error:
                lacking = f"{type(error).__name__}: {error}"
            if lacking is None:
                return
            if time.monotonic() > deadline:
                self._complain(f"{_PATIENCE_S:g} s are not enough until {what} ({lacking})")
                return
            time.sleep(_LOOK_S)

    def _unsettled(self) -> str | None:
        """Where the last stable offset is not the high watermark yet."""
        for place in PLACES:
            with self._leader(place) as link:
                stable, end = self._end_of(link, place, stable=True), self._end_of(link, place)
            if stable < end:
                return f"{place[0]}-{place[1]}: stable up to {stable} of {end}"
        return None

    def _uncopied(self) -> str | None:
        reader = RawReader(self._crowd.recorder, f"ends-{time.monotonic_ns()}", _SOURCES)
        with self._coordinator(GROUP) as link:
            found = self._copied.read(link)
        for place in _SOURCES:
            with self._leader(place) as link:
                records = list(reader.read(link, place))
            done = found.get(place) or 0
            if records and done < records[-1].offset + 1:
                return f"{place[0]}-{place[1]}: {done} of {records[-1].offset + 1}"
        return None

    def _unread(self) -> str | None:
        journal = self._crowd.journal
        ends: dict[Place, int] = {}
        for place in PLACES:
            if place[0] == ONCE:
                with self._leader(place) as link:
                    ends[place] = self._end_of(link, place)
        for group in GROUPS:
            with self._coordinator(group) as link:
                floors = journal.floors(group)
                found = group_asks.committed(link, group)
            if isinstance(found, ErrorCode):
                return f"group {group}: {found.name}"
            journal.fetch(group, floors, found)
            for place, end in ends.items():
                if place not in found or found[place].offset < end:
                    done = found[place].offset if place in found else None
                    return f"group {group}, {place[0]}-{place[1]}: {done} of {end}"
            journal.cover(group, found)
        return None

    # --- reading -------------------------------------------------------------------------------

    def _read_everything(self) -> None:
        crowd = self._crowd
        recorder = crowd.recorder
        committed = self._read(RawReader(recorder, "final", PLACES))
        self._read(RawReader(recorder, "final-uncommitted", PLACES, READ_UNCOMMITTED))
        if not crowd.feeder.fed or not any(committed[place] for place in _SOURCES):
            self._complain("nothing was fed to the copiers: that there is a copy says nothing")
        for _, number in _SOURCES:
            wanted, there = committed[INPUT, number], committed[OUTPUT, number]
            problem = compare_copy(wanted, there)
            if problem is not None:
                self._complain(f"{OUTPUT}-{number} is no copy: {problem}")

    def _read(self, reader: RawReader) -> dict[Place, list[Record]]:
        found = {}
        for place in PLACES:
            with self._leader(place) as link:
                found[place] = list(reader.read(link, place))
                end = self._end_of(link, place, stable=reader.isolation == READ_COMMITTED)
            reached = reader.position[place]
            self._reached[place] = max(reached, self._reached.get(place, 0))
            known = self._crowd.recorder.highest.get(place, -1)
            for problem in short_of_the_end(place, reached, end, known):
                self._complain(f"{reader.name}: {problem}")
        return found

    def _compare_replicas(self) -> None:
        ends = {}
        for place in self._all_places():
            with self._leader(place) as link:
                ends[place] = self._end_of(link, place)
        for problem in not_compared(ends, self._reached):
            self._complain(problem)
        for number in BROKERS:
            unclean = self._rig.stop_cleanly(number)
            if unclean is not None:
                self._complain(unclean)
        directories = {number: self._rig.data / f"broker-{number}" for number in BROKERS}
        for damaged in set_aside(directories):
            self._complain(damaged)
        for parted in parted_servers(self._rig.data.glob("zookeeper/*/zookeeper.log")):
            self._complain(parted)
        for difference in differences(directories, ends, _COMPACTED):
            self._complain(f"{REPLICAS_DIFFER}: {difference}")

    # --- whom to ask ---------------------------------------------------------------------------

    def _all_places(self) -> list[Place]:
        told = ask_metadata(self._rig.address_of(1), None, _ANSWER_S)
        return [(name, each.number) for name, parts in told.topics.items() for each in parts]

    @contextlib.contextmanager
    def _leader(self, place: Place) -> Iterator[Link]:
        leader = self._rig.leader_of(*place)
        if leader is None:
            raise ConnectionError(f"nobody leads {place}")
        with Link(*self._rig.address_of(leader), timeout_s=_ANSWER_S) as link:
            yield link

    @contextlib.contextmanager
    def _coordinator(self, group: str) -> Iterator[Link]:
        number = coordinator_of(self._rig, group)
        with Link(*self._rig.address_of(number), timeout_s=_ANSWER_S) as link:
            yield link

    @staticmethod
    def _end_of(link: Link, place: Place, *, stable: bool = False) -> int:
        return talk.offset_of(link, place, -1, committed=stable)


def short_of_the_end(place: Place, reached: int, end: int, known: int) -> Iterator[str]:
    """Whether a final reader has read less (or more) than there is: `end` is what the leader says,
    `known` the highest offset that a writer was told."""
    name = f"{place[0]}-{place[1]}"
    if reached != end:
        yield f"{name} was read to {reached}, its leader says that it ends at {end}"
    if reached <= known:
        yield f"{name} was read to {reached}, but offset {known} was acknowledged"


def not_compared(ends: Mapping[Place, int], reached: Mapping[Place, int]) -> Iterator[str]:
    """What a comparison of replicas up to `ends` would leave out."""
    topics = {topic for topic, _ in ends}
    if missing := [f"{topic}-{number}" for topic, number in PLACES if (topic, number) not in ends]:
        yield f"brokers do not know of {', '.join(missing)}: replicas are not compared"
    if unknown := sorted(_INTERNAL - topics):
        yield f"brokers do not know of {', '.join(unknown)}: replicas are not compared"
    for place, end in sorted(ends.items()):
        if end < reached.get(place, 0):
            name = f"{place[0]}-{place[1]}"
            yield f"{name} ends at {end}, but was read to {reached[place]} before"
