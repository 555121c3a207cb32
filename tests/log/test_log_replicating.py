"""A follower's log: byte for byte the leader's, with everything that follows from the bytes."""

import struct
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log.cleaner_scenes import clean, compacting, put
from tests.log.conftest import NOW_MS, PLACE, append, batch, open_log, read_values, sync
from tests.log.txn_log import aborted, aborted_entries, end, read_committed, write

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.replicating import append_replicated
from barnabas.log.store import LogStore
from barnabas.log.truncation import truncate_to
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.files import Files
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.wire.records.batch import HEADER_BYTES, stamp, walk
from barnabas.wire.records.compression import CODEC_NAMES
from barnabas.wire.records.record import encode_batch
from barnabas.world.clock import RealClock
from barnabas.world.entropy import RealEntropy
from barnabas.world.memory import MemoryFiles

SMALL = TopicConfig(segment_bytes=700, index_interval_bytes=100)


def memory() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs("data/events-0")
    return files


def log_of(config: TopicConfig = SMALL, files: Files | None = None) -> PartitionLog:
    return open_log(files or memory(), config=config)


def bytes_of(log: PartitionLog) -> bytes:
    return b"".join(bytes(each.file.pread(each.size, 0)) for each in log.segments)


def copy(leader: PartitionLog, follower: PartitionLog, chunk: int = 1 << 20) -> None:
    """Whole batches, about so many bytes at a time, as a leader sends them."""
    offset = follower.end_offset
    while offset < leader.end_offset:
        plan = leader.plan_read(offset, chunk, leader.end_offset, at_least_one=True)
        assert plan is not None
        result = plan.read()
        if not result.data:
            following = leader.next_readable(offset)
            assert following is not None
            offset = following
            continue
        data = memoryview(bytes(result.data))
        assert append_replicated(follower, data, 99, NOW_MS) == len(data)
        offset = result.next_offset


def known(log: PartitionLog) -> Any:
    """What a log knows, apart from when it heard of it."""
    producers = {
        producer_id: replace(producer, seen_ms=0) for producer_id, producer in log.producers
    }
    ended = aborted_entries(log, 0, log.end_offset)
    ongoing = list(log.producers.transactions.ongoing.items())
    return producers, ongoing, ended, log.epochs.entries, log.end_offset


def assert_same(leader: PartitionLog, follower: PartitionLog) -> None:
    assert bytes_of(follower) == bytes_of(leader)
    assert known(follower) == known(leader)
    assert read_committed(follower) == read_committed(leader)


def refuses(log: PartitionLog, data: bytes, leader_epoch: int = 99) -> None:
    before = bytes_of(log), known(log)
    with pytest.raises(KafkaError) as refused:
        append_replicated(log, memoryview(data), leader_epoch, NOW_MS)
    assert refused.value.code is ErrorCode.corrupt_message
    assert (bytes_of(log), known(log)) == before


# --- the same bytes, and what they say ---------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 4), st.sampled_from(sorted(CODEC_NAMES))),
        st.tuples(st.just("idempotent"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("transactional"), st.integers(4, 6), st.integers(1, 3)),
        st.tuples(st.just("end"), st.integers(4, 6), st.booleans()),
        st.tuples(st.just("epoch"), st.integers(1, 3), st.just(0)),
    ),
    max_size=40,
)


class Writer:
    """A leader's log that takes whatever comes."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.epoch = 0
        self._sequences: dict[int, int] = {}

    def take(self, kind: str, first: int, second: Any) -> None:
        if kind == "plain":
            plain = encode_batch([(NOW_MS, b"k", b"v" * 30, [])] * first, codec=second)
            append(self.log, memoryview(bytearray(plain)), epoch=self.epoch)
        elif kind == "idempotent":
            records = batch(*[b"v"] * second, producer=(first, 0, self._next(first, second)))
            append(self.log, records, epoch=self.epoch)
        elif kind == "transactional":
            write(self.log, (first, 0, self._next(first, second)), *[b"t"] * second)
        elif kind == "end":
            end(self.log, first, 0, committed=second)
        else:
            self.epoch += first
            self.log.epochs.assign(self.epoch, self.log.end_offset)

    def _next(self, producer: int, count: int) -> int:
        sequence = self._sequences.get(producer, 0)
        self._sequences[producer] = sequence + count
        return sequence


@settings(max_examples=60)
@given(STEPS, st.sampled_from([1, 150, 400, 1 << 20]))
def test_whatever_a_leader_wrote_is_the_same_at_its_follower(
    steps: list[tuple[str, int, Any]], chunk: int
) -> None:
    leader, follower = log_of(), log_of(TopicConfig(segment_bytes=900, index_interval_bytes=200))
    writer = Writer(leader)
    for step in steps:
        if step[0] in ("transactional", "end") and writer.epoch:
            continue  # (The helpers of transactions write in epoch 0.)
        writer.take(*step)
    copy(leader, follower, chunk)
    leader.epochs.truncate_end(leader.end_offset)  # A new epoch in which nothing was written.
    assert_same(leader, follower)


def test_a_restart_finds_what_was_copied() -> None:
    files = memory()
    leader, follower = log_of(), log_of(files=files)
    writer = Writer(leader)
    for number in range(12):
        writer.take("transactional", 4 + number % 2, 2)
        writer.take("end", 4 + number % 2, number % 3 == 0)
        writer.take("plain", 2, number % 5)
    writer.take("transactional", 6, 1)
    copy(leader, follower)
    before = known(follower)
    follower.close(clean=False)
    again = open_log(files, config=SMALL)
    assert known(again) == before
    assert_same(leader, again)


def test_a_compacted_log_is_copied_with_its_gaps() -> None:
    files, config = memory(), compacting()
    leader = open_log(files, config=config)
    for number in range(60):
        put(leader, (b"%d" % (number % 4), b"v%d" % number), (b"once %d" % number, b"w"))
        if number % 10 == 9:
            put(leader, (b"%d" % (number % 4), None))
    clean(files, leader)
    follower = open_log(memory(), config=config)
    copy(leader, follower, 300)
    assert bytes_of(follower) == bytes_of(leader)
    assert read_values(follower) == read_values(leader)
    assert follower.end_offset == leader.end_offset


def test_a_batch_that_compaction_has_emptied_is_copied() -> None:
    """What is left of it tells of its producer, and where it ended."""
    follower = log_of()
    empty = bytearray(encode_batch([], base_offset=5, producer_id=7, producer_epoch=0))
    append_replicated(follower, memoryview(_stamped(empty, 5, 0)), 0, NOW_MS)
    control = bytearray(encode_batch([], base_offset=9, producer_id=7, control=True))
    append_replicated(follower, memoryview(_stamped(control, 9, 0)), 0, NOW_MS)
    assert follower.end_offset > 9


@pytest.mark.parametrize("gap", [2**31, 2**40])
def test_a_gap_wider_than_a_segment(gap: int) -> None:
    files = memory()
    follower = log_of(files=files)
    one = batch(b"far")
    append_replicated(follower, _stamped(one, gap, 0), 0, NOW_MS)
    append_replicated(follower, _stamped(batch(b"further"), 2 * gap, 0), 0, NOW_MS)
    assert read_values(follower) == [(gap, b"far"), (2 * gap, b"further")]
    sync(follower)
    point = follower.recovery_point
    follower.close(clean=False)
    again = open_log(files, config=SMALL, recovery_point=point)
    assert read_values(again) == [(gap, b"far"), (2 * gap, b"further")]


def test_segments_roll_as_the_followers_own_settings_say() -> None:
    leader, follower = log_of(TopicConfig()), log_of()
    for number in range(30):
        append(leader, batch(b"%d" % number * 20))
    copy(leader, follower)
    assert len(leader.segments) == 1
    assert len(follower.segments) > 3
    assert_same(leader, follower)


# --- what is refused ---------------------------------------------------------------------------


def _stamped(data: Any, offset: int, epoch: int) -> memoryview:
    view = memoryview(bytearray(data))
    stamp(view, 0, offset, epoch)
    return view


def sent(*places: tuple[int, int]) -> bytes:
    """One batch of one record for each offset and epoch."""
    return b"".join(bytes(_stamped(batch(b"v"), *place)) for place in places)


def two_batches() -> PartitionLog:
    log = log_of()
    append_replicated(log, memoryview(sent((0, 1), (1, 3))), 3, NOW_MS)
    return log


@pytest.mark.parametrize(
    ("place", "leader_epoch"),
    [((0, 3), 9), ((1, 3), 9), ((-1, 3), 9), ((2, 2), 9), ((2, -1), 9), ((2, 10), 9)],
)
def test_what_does_not_follow_is_refused_without_a_trace(
    place: tuple[int, int], leader_epoch: int
) -> None:
    refuses(two_batches(), sent(place), leader_epoch)


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2])
def test_an_offset_behind_which_there_is_none_is_refused(offset: int) -> None:
    log = two_batches()
    refuses(log, bytes(_stamped(batch(b"a", b"b"), offset, 3)))


def test_every_damaged_byte_under_the_checksum_is_noticed() -> None:
    log, whole = two_batches(), sent((2, 3))
    for position in range(16, len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x40
        refuses(log, bytes(damaged))


def test_what_comes_before_damage_is_kept_and_nothing_behind_it() -> None:
    log = two_batches()
    damaged = bytearray(sent((2, 3), (3, 3), (4, 3)))
    one = len(sent((2, 3)))
    damaged[2 * one - 1] ^= 1
    with pytest.raises(KafkaError):
        append_replicated(log, memoryview(damaged), 3, NOW_MS)
    assert log.end_offset == 3


@pytest.mark.parametrize("left", [1, 10, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 3])
def test_an_answer_that_ends_within_a_batch_is_taken_up_to_there(left: int) -> None:
    log, one = two_batches(), len(sent((2, 3)))
    torn = sent((2, 3), (3, 3))[: one + left]
    assert append_replicated(log, memoryview(torn), 3, NOW_MS) == one
    assert log.end_offset == 3


@pytest.mark.parametrize("left", [1, HEADER_BYTES, HEADER_BYTES + 3])
def test_an_answer_without_a_whole_batch_is_no_answer(left: int) -> None:
    """Asked again the leader would send the same, for ever."""
    refuses(two_batches(), sent((2, 3))[:left])


def test_nothing_is_nothing() -> None:
    assert append_replicated(two_batches(), memoryview(b""), 3, NOW_MS) == 0


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    st.integers(0, 420),
    st.booleans(),
)
def test_any_bytes_are_stored_or_refused(
    changes: list[tuple[int, int]], length: int, mends_checksums: bool
) -> None:
    log = two_batches()
    data = bytearray(sent((2, 3), (3, 3), (5, 4)) + bytes(encode_batch([(1, b"k", b"v", [])])))
    for position, value in changes:
        data[position % len(data)] = value
    if mends_checksums:
        _mend(data)
    with suppress(KafkaError):
        append_replicated(log, memoryview(data)[:length], 9, NOW_MS)
    ends = [header.last_offset + 1 for _, header in walk(bytes_of(log))]
    assert ends == sorted(set(ends))
    assert log.end_offset == ends[-1]


def _mend(data: bytearray) -> None:
    """Make the checksums right, so that what lies under them is looked at."""
    from barnabas.wire.records.batch import crc_of

    for position, header in walk(data):
        struct.pack_into(">I", data, position + 17, crc_of(data, position, header.size))


@pytest.mark.parametrize("key", [b"", b"\0\0", b"\0\0\0\7", b"\xff\xff\0\0"])
def test_a_control_batch_of_another_kind_ends_nothing(key: bytes) -> None:
    log = log_of()
    first = _stamped(batch(b"t", producer=(7, 0, 0), transactional=True), 0, 0)
    append_replicated(log, first, 0, NOW_MS)
    control = encode_batch(
        [(NOW_MS, key, b"", [])], producer_id=7, producer_epoch=0, transactional=True, control=True
    )
    append_replicated(log, _stamped(control, 1, 0), 0, NOW_MS)
    assert log.end_offset == 2
    assert list(log.producers.transactions.ongoing) == [7]


# --- disks ---------------------------------------------------------------------------------------


def test_a_full_disk_refuses_a_batch_and_harms_nothing() -> None:
    files = SimFiles(3)
    files.make_dirs("data/events-0")
    log = log_of(files=files)
    append_replicated(log, memoryview(sent((0, 0))), 0, NOW_MS)
    files.faults.fail_next("write", ".log")
    with pytest.raises(KafkaError) as refused:
        append_replicated(log, memoryview(sent((1, 0))), 0, NOW_MS)
    assert refused.value.code is ErrorCode.kafka_storage_error
    append_replicated(log, memoryview(sent((1, 0), (2, 0))), 0, NOW_MS)
    assert [offset for offset, _ in read_values(log)] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(25))
def test_power_lost_while_copying_leaves_a_log_that_can_be_copied_on(seed: int) -> None:
    leader = log_of(TopicConfig())
    writer = Writer(leader)
    for number in range(20):
        writer.take("transactional", 4 + number % 3, 1 + number % 2)
        writer.take("end", 4 + number % 3, number % 2 == 0)
        writer.take("plain", 1 + number % 3, number % 5)
    files = SimFiles(seed, chances=Chances(cold=0))
    files.make_dirs("data/events-0")
    for each in (".", "data"):
        files.sync_dir(each)
    follower = log_of(files=files)
    sync(follower)
    files.lose_power_after(5 + 7 * seed)
    point = 0
    with suppress(OSError, KafkaError):
        while follower.end_offset < leader.end_offset:
            _copy_one(leader, follower)
            if follower.end_offset % 5 == 0:
                point = sync(follower)
    again = open_log(files.crash(), config=SMALL, recovery_point=point)
    assert again.end_offset >= point
    assert bytes_of(leader).startswith(bytes_of(again))
    copy(leader, again)
    assert_same(leader, again)


def _copy_one(leader: PartitionLog, follower: PartitionLog) -> None:
    plan = leader.plan_read(follower.end_offset, 1, leader.end_offset, at_least_one=True)
    assert plan is not None
    append_replicated(follower, memoryview(bytes(plan.read().data)), 0, NOW_MS)


# --- cutting while syncing -----------------------------------------------------------------------


def test_a_sync_that_began_before_a_cut_says_nothing_of_what_came_after_it() -> None:
    log = log_of()
    append_replicated(log, memoryview(sent((0, 0), (1, 0), (2, 0), (3, 0))), 0, NOW_MS)
    job = log.sync_job()
    assert job is not None
    truncate_to(log, 1, NOW_MS)
    append_replicated(log, memoryview(sent((1, 2), (2, 2))), 2, NOW_MS)
    job.run()
    log.synced(job)
    assert (log.recovery_point, log.end_offset) == (1, 3)
    assert sync(log) == 3


def test_a_cut_below_the_recovery_point_is_written_down_before_anything_follows() -> None:
    """Otherwise a torn tail of what follows would be taken for damage of what was synced."""
    files = SimFiles(1)
    store = LogStore(files, "data", RealClock(), RealEntropy())
    log = store.open(PLACE, RealEntropy().uuid(), TopicConfig())
    append_replicated(log, memoryview(sent(*((each, 0) for each in range(6)))), 0, NOW_MS)
    sync(log)
    store.checkpoint_job()()
    truncate_to(log, 2, NOW_MS)
    append_replicated(log, memoryview(sent((2, 1), (3, 1), (4, 1))), 1, NOW_MS)
    again = LogStore(files.crash(), "data", RealClock(), RealEntropy())
    assert again._recovery_points[PLACE] == 2


def test_epochs_that_are_lost_are_read_from_the_batches() -> None:
    """A follower without them would have its log compared with nothing."""
    files = memory()
    log = log_of(files=files)
    append_replicated(log, memoryview(sent(*((each, each // 4) for each in range(24)))), 9, NOW_MS)
    sync(log)
    wanted = log.epochs.entries
    log.close(clean=True)
    for damage in (None, b"no checkpoint"):
        if damage is None:
            files.remove("data/events-0/leader-epoch-checkpoint")
        else:
            files.replace("data/events-0/leader-epoch-checkpoint", damage)
        again = open_log(files, config=SMALL, clean=True, recovery_point=24)
        assert again.epochs.entries == wanted
        again.close(clean=False)


def test_offsets_of_aborted_transactions_are_those_of_the_leader() -> None:
    leader, follower = log_of(), log_of()
    write(leader, (4, 0, 0), b"a")
    write(leader, (5, 0, 0), b"b")
    end(leader, 4, 0, committed=False)
    end(leader, 5, 0, committed=False)
    copy(leader, follower)
    assert aborted(follower) == aborted(leader) == [(4, 0), (5, 1)]


def test_a_producer_of_old_records_is_remembered_as_long_as_at_the_leader() -> None:
    """Otherwise the next leader would store a retry once more."""
    leader, follower = log_of(), log_of()
    long_ago, a_day_ms = NOW_MS - 30 * 86_400_000, 86_400_000
    config = replace(SMALL, message_timestamp_before_max_ms=2**63 - 1)
    leader.configure(config)
    follower.configure(config)
    sent = [batch(b"%d" % at, timestamp=long_ago, producer=(7, 0, at)) for at in range(3)]
    for each in sent:
        append(leader, memoryview(bytearray(each)))
    copy(leader, follower)
    for log in (leader, follower):
        log.producers.expire(NOW_MS - a_day_ms)
        retry = memoryview(bytearray(sent[2]))
        assert log.append(retry, log.check(retry, NOW_MS), 1, NOW_MS).repeated
        log.producers.expire(NOW_MS + 1)
        assert log.producers.get(7) is None
