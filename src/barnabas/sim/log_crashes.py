"""One seed, one story: logs are written, the machine dies, the logs are opened again, and checked.

Each life opens the data directory, compares every log with what the model knows was promised,
repeats the last batches of each idempotent producer as a client would, writes on, and ends by a
kill, a power cut (at any write, sync or rename), a failed sync, or a clean stop.

What is promised: a kill loses nothing that was appended. Power loss loses nothing that was
acknowledged with `flush.messages=1`. Never is a record served that was not written at that
offset, never are offsets given twice or left out, never is an idempotent batch stored twice,
and records once deleted (and acknowledged as such) do not come back.
"""

import asyncio
import errno
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.reading import batches
from barnabas.log.store import LogStore
from barnabas.model.check import require
from barnabas.model.errors import KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.replica.partition import Partition
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.faults import Chances, PowerLostError
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch, encode_batch

_TOPIC_ID: Final = uuid.UUID(int=7)
_LIVES: Final = 4
_STEPS_MAX: Final = 60


@dataclass(slots=True)
class Sent:
    """A batch somebody tried to append."""

    values: list[bytes]
    sequence: int
    offset: int = -1
    acknowledged: bool = False


@dataclass(slots=True)
class Model:
    """What is known of one partition's log, from outside."""

    synced_first: bool
    """flush.messages=1: an acknowledgement is a promise against power loss."""
    at: dict[int, set[bytes]] = field(default_factory=dict)
    """Every value that was ever written at an offset (lost tails may be written anew)."""
    promised: dict[int, bytes] = field(default_factory=dict)
    appended: dict[int, bytes] = field(default_factory=dict)
    """What the process had appended when it died: a kill must not lose it."""
    start_offset: int = 0
    known_start: int = 0
    """Where the log began as far as the life before knew."""
    sent: list[Sent] = field(default_factory=list)
    """The idempotent producer's last batches, oldest first."""
    next_sequence: int = 0
    producer: int = 900


class Story:
    """The lives of one data directory."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(f"{seed}/story")
        self.files = SimFiles(seed)
        self.models = [Model(synced_first=number % 2 == 0) for number in range(3)]
        self.counter = 0
        self.lost = False
        """Whether the life before ended in power loss, not in a mere kill."""
        self._waiting: list[asyncio.Task[None]] = []
        """Held for as long as the loop runs: what waits for a sync that a power loss has taken away
        is held by nobody else, and would be collected unfinished."""
        self.tally = {"lives": 0, "batches": 0, "crashes": 0, "cut": 0, "repeats": 0}

    def config(self, number: int) -> TopicConfig:
        """Small segments and intervals, so that little data has many of them."""
        sizes = random.Random(f"{self.seed}/config/{number}")
        return TopicConfig(
            segment_bytes=sizes.choice([1000, 2500, 1 << 20]),
            index_interval_bytes=sizes.choice([1, 200, 4096]),
            flush_messages=1 if self.models[number].synced_first else 2**63 - 1,
            file_delete_delay_ms=0,
        )

    async def live(self, loop: SimLoop, life: int) -> None:
        """Open, check, write on, die."""
        self.tally["lives"] += 1
        clock, entropy = SimClock(loop), SimEntropy(f"{self.seed}/{life}")
        work = SimWork(loop, f"{self.seed}/{life}")
        failures: list[str] = []
        store = LogStore(self.files, "data", clock, entropy)
        partitions = []
        for number in range(len(self.models)):
            log = store.open(TopicPartition("t", number), _TOPIC_ID, self.config(number))
            self._check(number, log)
            partitions.append(Partition(log, life, work, failures.append))
        if not store.clean:
            store.checkpoint_job()()
        for number, partition in enumerate(partitions):
            self._repeat_last(number, partition, clock)
        ending = self.chance.choice(["kill", "power", "power", "power later", "sync error", "stop"])
        self.files.faults.chances = Chances(write=self.chance.choice([0, 0, 0.03]))
        if ending == "power later":
            self.files.lose_power_after(self.chance.randrange(1, 40))
        try:
            await self._write_on(store, partitions, clock, ending, failures)
        except PowerLostError:
            ending = "power"
        self._die(ending, store, work)

    async def _write_on(
        self,
        store: LogStore,
        partitions: list[Partition],
        clock: SimClock,
        ending: str,
        failures: list[str],
    ) -> None:
        waiting = self._waiting = []
        for step in range(self.chance.randrange(1, _STEPS_MAX)):
            number = self.chance.randrange(len(partitions))
            partition = partitions[number]
            if ending == "sync error" and step == 5:
                self.files.faults.fail_next("sync", ".log")
            action = self.chance.random()
            if action < 0.70:
                waiting += self._append(number, partition, clock)
            elif action < 0.80:
                await asyncio.sleep(self.chance.random() * 0.05)
            elif action < 0.84:
                partition.sync()
            elif action < 0.88:
                await self._delete_records(number, partition, store)
            elif action < 0.92:
                self._roll(partition, clock)
            elif action < 0.95:
                self._retain(partition, store)
            else:
                self._keep_house(store)
            if failures:
                break
        if self.chance.random() < 0.5:
            await asyncio.sleep(0.2)
        for task in waiting:
            task.cancel()

    def _roll(self, partition: Partition, clock: SimClock) -> None:
        try:
            partition.log.roll(clock.wall_ms())
        except KafkaError as error:
            _raise_if_dead(error)

    def _retain(self, partition: Partition, store: LogStore) -> None:
        """As retention does: the oldest segments go, and nobody is promised when."""
        log = partition.log
        log.advance_start(min(self.chance.choice(log.segments).base_offset, log.recovery_point))
        gone = log.expired(0, partition.high_watermark)
        if gone:
            store.drop_segments(log, gone)

    def _keep_house(self, store: LogStore) -> None:
        """Each duty has a timer of its own: any may come first, or alone."""
        for duty in self.chance.sample([self._checkpoint, self._remove_due], 2):
            duty(store)
            if self.chance.random() < 0.5:
                return

    def _checkpoint(self, store: LogStore) -> None:
        try:
            store.checkpoint_job()()
        except PowerLostError:
            raise
        except OSError as error:
            require(error.errno == errno.ENOSPC, f"a checkpoint failed: {error}")

    def _remove_due(self, store: LogStore) -> None:
        for remove in store.take_due_removals():
            remove()

    def _append(
        self, number: int, partition: Partition, clock: SimClock
    ) -> list["asyncio.Task[None]"]:
        """One batch from a plain or from the idempotent producer."""
        model = self.models[number]
        idempotent = self.chance.random() < 0.5
        if idempotent and model.sent and model.sent[-1].offset < 0:
            # Its last batch was refused: a client repeats it before it sends another.
            return self._send(number, partition, model.sent[-1], clock)
        if idempotent and len(model.sent) == 5 and not model.sent[0].acknowledged:
            return []  # Five in flight is all the protocol allows.
        self.counter += 1
        count = self.chance.randrange(1, 4)
        size = self.chance.choice([1, 30, 200])
        values = [f"{number}:{self.counter}:{i}:".encode() + b"x" * size for i in range(count)]
        batch = Sent(values, model.next_sequence if idempotent else -1)
        if idempotent:
            model.next_sequence += count
            model.sent = [*model.sent[-4:], batch]
        return self._send(number, partition, batch, clock)

    def _send(
        self, number: int, partition: Partition, batch: Sent, clock: SimClock
    ) -> list["asyncio.Task[None]"]:
        model = self.models[number]
        view = memoryview(bytearray(self._encode(number, batch, clock)))
        self.tally["batches"] += 1
        header = partition.log.check(view, clock.wall_ms())
        # Even if the machine dies inside the append, its bytes may be found there later.
        for value, offset in zip(
            batch.values, range(partition.log.end_offset, 1 << 40), strict=False
        ):
            model.at.setdefault(offset, set()).add(value)
        try:
            appended, acknowledged = partition.append(view, header, clock.wall_ms())
        except KafkaError as error:
            _raise_if_dead(error)
            return []
        batch.offset = appended.first_offset
        for place, value in enumerate(batch.values, appended.first_offset):
            model.at.setdefault(place, set()).add(value)
            model.appended[place] = value
        if acknowledged is None:
            batch.acknowledged = True
            return []
        return [asyncio.ensure_future(self._await_promise(model, batch, acknowledged))]

    async def _await_promise(
        self, model: Model, batch: Sent, acknowledged: "asyncio.Future[None]"
    ) -> None:
        try:
            await acknowledged
        except KafkaError:
            return
        batch.acknowledged = True
        if model.synced_first:
            model.promised.update(enumerate(batch.values, batch.offset))

    def _encode(self, number: int, batch: Sent, clock: SimClock) -> bytes:
        has_producer = batch.sequence >= 0
        return encode_batch(
            [(clock.wall_ms(), None, value, []) for value in batch.values],
            producer_id=self.models[number].producer if has_producer else -1,
            producer_epoch=0 if has_producer else -1,
            base_sequence=batch.sequence,
        )

    async def _delete_records(self, number: int, partition: Partition, store: LogStore) -> None:
        model, log = self.models[number], partition.log
        if partition.high_watermark <= log.start_offset:
            return
        start = self.chance.randrange(log.start_offset, partition.high_watermark)
        log.advance_start(start)
        try:
            store.checkpoint_job()()
        except PowerLostError:
            raise
        except OSError:
            return  # A full disk: the deletion is not acknowledged.
        model.start_offset = start
        gone = log.expired(0, partition.high_watermark)
        if gone:
            store.drop_segments(log, gone)

    def _die(self, ending: str, store: LogStore, work: SimWork) -> None:
        self.files.faults.chances = Chances()
        self.files.faults.call_off()
        self.lost = ending not in ("kill", "stop")
        if ending == "stop":
            try:
                work.kill()
                store.close()
            except OSError:
                self.lost = False
            self.files = self.files.kill()
        elif ending == "kill":
            work.kill()
            self.files = self.files.kill()
        else:
            self.tally["crashes"] += 1
            work.kill()
            self.files = self.files.crash()

    # --- what must hold ------------------------------------------------------------------------

    def _check(self, number: int, log: PartitionLog) -> None:
        model = self.models[number]
        found = self._read_all(log)
        where = f"seed {self.seed}, partition {number}"
        require(
            sorted(found) == list(range(log.start_offset, log.end_offset)),
            f"{where}: offsets have gaps or repeats",
        )
        for offset, value in found.items():
            require(
                value in model.at.get(offset, ()), f"{where}: {value[:20]!r} at {offset} is made up"
            )
        must_hold = model.promised if self.lost else {**model.promised, **model.appended}
        for offset, value in must_hold.items():
            if offset >= log.start_offset:
                require(
                    found.get(offset) == value,
                    f"{where}: {value[:20]!r} at {offset} is lost (log ends at {log.end_offset})",
                )
        require(
            log.start_offset >= model.start_offset or self.lost,
            f"{where}: deleted records are back",
        )
        if log.end_offset < max(model.appended, default=-1) + 1:
            self.tally["cut"] += 1
        self._check_times(number, log)
        model.known_start, model.start_offset = model.start_offset, log.start_offset
        model.appended = found

    def _check_times(self, number: int, log: PartitionLog) -> None:
        """A look-up by time finds what reading everything finds, whatever became of indexes."""
        times = dict(_times(log))
        if not times:
            return
        moment = self.chance.choice(sorted(set(times.values())))
        found = log.timestamp_search(log.end_offset).first_at_or_after(moment)
        first = min(offset for offset, time in times.items() if time >= moment)
        require(
            found is not None and found.offset == first,
            f"seed {self.seed}, partition {number}: {found} at {moment} instead of {first}",
        )

    def _read_all(self, log: PartitionLog) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        offset = log.start_offset
        while offset < log.end_offset:
            plan = log.plan_read(offset, 700, log.end_offset, at_least_one=True)
            require(plan is not None, "there is something to read below the end")
            result = plan.read() if plan is not None else None
            require(result is not None and result.next_offset > offset, f"stuck at {offset}")
            if result is None:
                return found
            for position, _ in walk(result.data):
                for record in decode_batch(result.data, position):
                    if record.offset >= offset:
                        require(record.offset not in found, f"offset {record.offset} twice")
                        found[record.offset] = record.value or b""
            offset = result.next_offset
        return found

    def _repeat_last(self, number: int, partition: Partition, clock: SimClock) -> None:
        """A client that lost its connection repeats what was not acknowledged, in order."""
        model = self.models[number]
        beginning_lost = partition.log.start_offset > model.known_start
        if self.lost and (not model.synced_first or beginning_lost):
            # What was not promised may be gone; a client notices the gap and starts over.
            model.sent, model.next_sequence, model.producer = [], 0, model.producer + 10
        kept = [s for s in model.sent if model.appended.get(s.offset) == s.values[0]]
        for batch in model.sent:
            was_kept = batch in kept
            before = partition.log.end_offset
            view = memoryview(bytearray(self._encode(number, batch, clock)))
            for place, value in enumerate(batch.values, before):
                model.at.setdefault(place, set()).add(value)
            header = partition.log.check(view, clock.wall_ms())
            appended, acknowledged = partition.append(view, header, clock.wall_ms())
            self.tally["repeats"] += 1
            where = f"seed {self.seed}, partition {number}, sequence {batch.sequence}"
            if was_kept:
                require(appended.repeated, f"{where}: a stored batch was stored again")
                require(appended.first_offset == batch.offset, f"{where}: another offset")
                if model.synced_first and acknowledged is None:
                    model.promised.update(enumerate(batch.values, batch.offset))
            else:
                batch.offset = appended.first_offset
                model.appended.update(enumerate(batch.values, batch.offset))


def _times(log: PartitionLog) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of every record, from the segments themselves."""
    for segment in log.segments:
        for position, header in batches(segment, 0, segment.size):
            for record in decode_batch(segment.file.pread(header.size, position)):
                if record.offset >= log.start_offset:
                    yield record.offset, record.timestamp


def _raise_if_dead(error: KafkaError) -> None:
    if isinstance(error.__cause__, PowerLostError):
        raise error.__cause__


def tell(seed: int) -> Story:
    """Live the whole story of a seed; raises when a promise is broken."""
    story = Story(seed)
    for life in range(_LIVES):
        run(lambda loop, life=life: story.live(loop, life), f"{seed}/{life}")  # type: ignore[misc]
    require(story.tally["lives"] == _LIVES, "every life was lived")
    return story
