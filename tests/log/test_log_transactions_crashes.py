"""Power cuts and kills at any write: whatever is left of a log, all else agrees with it."""

import random
from dataclasses import dataclass, field

import pytest
from tests.log.conftest import NOW_MS, PLACE, append, batch, open_log, sync
from tests.log.txn_log import aborted_entries, end, read_committed, stable, write

from barnabas.config.topic_config import TopicConfig
from barnabas.log.dump import StoredPartition
from barnabas.log.log import PartitionLog
from barnabas.log.reading import batches
from barnabas.log.verify import Tally, verify_partition
from barnabas.model.errors import KafkaError
from barnabas.sim.faults import Chances, PowerLostError
from barnabas.sim.files import SimFiles
from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.control import decode_marker
from barnabas.wire.records.record import Record, decode_batch

CONFIG = TopicConfig(segment_bytes=700, index_interval_bytes=200)
HOME = "data/events-0"
SEEDS = 60
LIVES = 5


@dataclass
class Told:
    """What the batches of a log say, when each of them is read."""

    open: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    coordinators: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    data: list[tuple[BatchHeader, list[Record]]] = field(default_factory=list)

    def include(self, header: BatchHeader, records: list[Record]) -> None:
        producer = header.producer_id
        if producer >= 0:
            self.epochs[producer] = header.producer_epoch
        if not header.is_control:
            self.data.append((header, records))
            if header.is_transactional:
                self.open.setdefault(producer, header.base_offset)
            return
        marker = decode_marker(records[0])
        self.coordinators[producer] = marker.coordinator_epoch
        first = self.open.pop(producer, None)
        if first is not None and not marker.committed:
            self.aborted.append((producer, first, header.base_offset))

    def visible(self, up_to: int) -> list[tuple[int, bytes | None]]:
        return [
            (record.offset, record.value)
            for header, records in self.data
            for record in records
            if record.offset < up_to and not self._is_aborted(header)
        ]

    def _is_aborted(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            producer == header.producer_id and first <= header.base_offset < last
            for producer, first, last in self.aborted
        )


def told_by(log: PartitionLog) -> Told:
    told = Told()
    for segment in log.segments:
        for position, header in batches(segment, 0, segment.size):
            told.include(header, decode_batch(segment.file.pread(header.size, position)))
    return told


def check(log: PartitionLog) -> None:
    told = told_by(log)
    edge = min(told.open.values(), default=log.end_offset)
    assert stable(log) == edge
    assert dict(log.producers.transactions.ongoing) == told.open
    found = aborted_entries(log, 0, log.end_offset)
    assert [each[:3] for each in found] == told.aborted
    for producer, known in log.producers:
        assert known.epoch == told.epochs[producer]
        assert known.coordinator_epoch == told.coordinators.get(producer, -1)
    assert {producer for producer, _ in log.producers} == told.epochs.keys()
    assert read_committed(log) == told.visible(edge)


class Story:
    """The lives of one log."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = SimFiles(seed, chances=Chances(cold=0))
        self.files.make_dirs(HOME)
        for folder in ("", "data"):
            self.files.sync_dir(folder)
        self.point = 0
        self.clean = False

    def tell(self) -> None:
        for _ in range(LIVES):
            log = open_log(self.files, config=CONFIG, recovery_point=self.point, clean=self.clean)
            assert log.end_offset >= self.point
            if log.start_offset > 0:
                return  # The name of the first segment was lost, of which nothing had been synced.
            check(log)
            self.clean = False
            if self.chance.random() < 0.7:
                self.files.lose_power_after(self.chance.randrange(1, 60))
            try:
                self.live(log)
                self.die(log)
            except (OSError, KafkaError) as error:
                if not isinstance(error.__cause__ or error, PowerLostError):
                    raise
                self.files = self.files.crash()

    def live(self, log: PartitionLog) -> None:
        for _ in range(self.chance.randrange(60)):
            producer = self.chance.choice([5, 6, 7])
            match self.chance.randrange(8):
                case 0:
                    append(log, batch(b"plain" * self.chance.randrange(1, 5)))
                case 1 | 2 | 3:
                    known = log.producers.get(producer)
                    epoch, sequence = (known.epoch, known.last_sequence + 1) if known else (0, 0)
                    write(log, (producer, epoch, sequence), b"%d" % log.end_offset)
                case 4 | 5:
                    self.end(log, producer)
                case 6:
                    sync(log)
                    self.point = log.proven_offset
                case 7 if self.chance.random() < 0.3:
                    log.roll(NOW_MS)
                case _:
                    pass

    def end(self, log: PartitionLog, producer: int) -> None:
        known = log.producers.get(producer)
        epoch = known.epoch if known else 0
        coordinator = known.coordinator_epoch + 1 if known else 0
        bumped = self.chance.random() < 0.5
        end(
            log,
            producer,
            epoch + bumped,
            committed=self.chance.random() < 0.4,
            coordinator_epoch=coordinator,
            version=2 * bumped,
        )

    def die(self, log: PartitionLog) -> None:
        match self.chance.choice(["stop", "kill", "crash"]):
            case "stop":
                sync(log)
                self.point = log.proven_offset
                log.close(clean=True)
                self.files = self.files.kill()
                self.clean = True
                place = StoredPartition(HOME, PLACE)
                assert list(verify_partition(self.files, place, Tally(lambda _: None))) == []
            case "kill":
                self.files = self.files.kill()
            case "crash":
                self.files = self.files.crash()


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_whatever_is_left_agrees(first: int) -> None:
    for seed in range(first, first + 20):
        try:
            Story(seed).tell()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
