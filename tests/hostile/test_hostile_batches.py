"""Record batches that lie: refused by name, without cost, and without a trace in the log."""

import struct
from typing import Final

import pytest
from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess
from tests.hostile.bombs import CODECS, batch_with, bomb, corrupt, lying_snappy

from barnabas.wire.records.batch import parse_header
from barnabas.wire.records.record import encode_batch

_LOOKED_INTO: Final = ("compacted", "compressing")
"""The broker has to look at the records that are sent to these topics."""
_INFLATED: Final = ("compacted", "unpacking")
"""The broker has to decompress what is sent to these topics."""
_DECOMPRESSED_KIB_MAX: Final = 64 * 1024


def _refusal(broker: BrokerProcess, topic: str, batch: bytes) -> str:
    """The error a batch gets. The log of the topic stays as it was."""
    with broker.link() as link:
        end = talk.offset_of(link, (topic, 0), -1)
        with pytest.raises(talk.RefusedError) as refused:
            talk.produce(link, (topic, 0), batch)
        assert talk.offset_of(link, (topic, 0), -1) == end
    return str(refused.value)


def _sound() -> bytearray:
    return bytearray(batch_with(b"\x12\x00\x00\x00\x02k\x02v\x00"))


def test_a_sound_batch_is_taken(broker: BrokerProcess) -> None:
    """The batch the tests below spoil is taken everywhere as it is."""
    batch = encode_batch([(1, b"k", b"v", [])])
    with broker.link() as link:
        for topic in ("target", *_LOOKED_INTO):
            end = talk.offset_of(link, (topic, 0), -1)
            assert talk.produce(link, (topic, 0), batch) == end


@pytest.mark.parametrize("bit", [0, 7, 21 * 8, 60 * 8, 62 * 8])
def test_a_flipped_bit_behind_the_checksum(broker: BrokerProcess, bit: int) -> None:
    batch = _sound()
    batch[21 + bit // 8 % (len(batch) - 21)] ^= 1 << bit % 8
    assert _refusal(broker, "target", bytes(batch)) == "CORRUPT_MESSAGE"


@pytest.mark.parametrize(
    ("magic", "error"),
    [
        (0, "INVALID_RECORD"),
        (1, "INVALID_RECORD"),
        (3, "CORRUPT_MESSAGE"),
        (255, "CORRUPT_MESSAGE"),
    ],
)
def test_another_magic(broker: BrokerProcess, magic: int, error: str) -> None:
    batch = _sound()
    batch[16] = magic
    assert _refusal(broker, "target", bytes(batch)) == error


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1, -(2**31), 200])
def test_a_batch_length_that_lies(broker: BrokerProcess, length: int) -> None:
    batch = _sound()
    struct.pack_into(">i", batch, 8, length)
    assert _refusal(broker, "target", bytes(batch)) in ("CORRUPT_MESSAGE", "INVALID_RECORD")


@pytest.mark.parametrize("size", [1, 11, 12, 60])
def test_a_batch_cut_in_its_header(broker: BrokerProcess, size: int) -> None:
    error = _refusal(broker, "target", bytes(_sound()[:size]))
    assert error in ("CORRUPT_MESSAGE", "INVALID_RECORD")


@pytest.mark.parametrize(
    ("count", "delta"), [(0, 0), (0, -1), (-1, -2), (2, 0), (1, 1), (2**31 - 1, 0), (1, 2**31 - 1)]
)
def test_counts_that_contradict_each_other(broker: BrokerProcess, count: int, delta: int) -> None:
    batch = batch_with(b"\x12\x00\x00\x00\x02k\x02v\x00", count=count, last_offset_delta=delta)
    for topic in ("target", *_LOOKED_INTO):
        assert _refusal(broker, topic, batch) == "INVALID_RECORD"


@pytest.mark.parametrize("count", [2, 3, 1000, 2**31 - 1])
@pytest.mark.parametrize("topic", _LOOKED_INTO)
def test_counts_that_the_records_belie(broker: BrokerProcess, topic: str, count: int) -> None:
    """Header and header agree, but the records are fewer; it shows where they are looked into."""
    broker.reset_peak()
    before = broker.status_kib("VmRSS")
    batch = batch_with(
        b"\x12\x00\x00\x00\x02k\x02v\x00", count=count, last_offset_delta=count - 1
    )  # fmt: skip
    assert _refusal(broker, topic, batch) == "INVALID_RECORD"
    assert broker.status_kib("VmHWM") - before < 16 * 1024


@pytest.mark.parametrize(
    "records",
    [
        b"",
        b"\x00",
        b"\xff" * 5,
        b"\x02",
        b"\x12\x00\x00\x00\x02k",
        b"\x01" * 64,
        b"\x7e" + bytes(8),
    ],
)
@pytest.mark.parametrize("topic", _LOOKED_INTO)
def test_records_that_are_none(broker: BrokerProcess, topic: str, records: bytes) -> None:
    assert _refusal(broker, topic, batch_with(records)) == "INVALID_RECORD"


def test_keys_must_be_there_on_a_compacted_topic(broker: BrokerProcess) -> None:
    assert _refusal(broker, "compacted", talk.batch_of(b"keyless")) == "INVALID_RECORD"


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("topic", _INFLATED)
def test_bombs_are_refused_and_not_inflated(broker: BrokerProcess, topic: str, name: str) -> None:
    batch = bomb(name)
    assert len(batch) < 1024 * 1024, "refused for its size alone"
    broker.reset_peak()
    before = broker.status_kib("VmRSS")
    assert _refusal(broker, topic, batch) == "INVALID_RECORD"
    grown = broker.status_kib("VmHWM") - before
    assert grown < 2 * _DECOMPRESSED_KIB_MAX + 16 * 1024, f"{grown} KiB for {len(batch)} bytes"


@pytest.mark.parametrize("claim", [2**32 - 1, 2**31, 2**30])
@pytest.mark.parametrize("topic", _INFLATED)
def test_snappy_that_claims_to_be_huge(broker: BrokerProcess, topic: str, claim: int) -> None:
    broker.reset_peak()
    before = broker.status_kib("VmRSS")
    batch = batch_with(lying_snappy(claim), attributes=CODECS["snappy"])
    assert _refusal(broker, topic, batch) == "INVALID_RECORD"
    assert broker.status_kib("VmHWM") - before < 16 * 1024


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("topic", _INFLATED)
def test_compressed_records_that_are_corrupt(broker: BrokerProcess, topic: str, name: str) -> None:
    codec = CODECS[name]
    for records in (corrupt(codec), b"", b"\x00", bytes(100), b"\xff" * 100):
        batch = batch_with(records, attributes=codec)
        assert _refusal(broker, topic, batch) == "INVALID_RECORD", records.hex()


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_there_are_not(broker: BrokerProcess, codec: int) -> None:
    batch = batch_with(b"\x00", attributes=codec)
    for topic in ("target", *_LOOKED_INTO):
        assert _refusal(broker, topic, batch) == "UNSUPPORTED_COMPRESSION_TYPE"


def test_control_records_and_transactions_of_strangers(broker: BrokerProcess) -> None:
    assert _refusal(broker, "target", batch_with(b"\x00", attributes=0x20)) == "INVALID_RECORD"
    pretender = batch_with(
        b"\x00", attributes=0x10, producer_id=9, producer_epoch=0, base_sequence=0
    )  # fmt: skip
    assert _refusal(broker, "target", pretender) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def test_two_batches_where_one_is_allowed(broker: BrokerProcess) -> None:
    assert _refusal(broker, "target", talk.batch_of(b"a") + talk.batch_of(b"b")) == "INVALID_RECORD"


@pytest.mark.parametrize("base_offset", [1, -1, 2**63 - 1])
def test_a_base_offset_of_the_clients_own(broker: BrokerProcess, base_offset: int) -> None:
    batch = batch_with(b"\x00", base_offset=base_offset)
    assert _refusal(broker, "target", batch) == "INVALID_RECORD"


def test_a_batch_larger_than_the_topic_takes(broker: BrokerProcess) -> None:
    assert _refusal(broker, "target", talk.batch_of(bytes(1024 * 1024))) == "MESSAGE_TOO_LARGE"


def test_timestamps_beyond_all_time(broker: BrokerProcess) -> None:
    for moment in (2**63 - 1, 10**15):
        batch = batch_with(b"\x00", max_timestamp=moment)
        assert _refusal(broker, "target", batch) == "INVALID_TIMESTAMP"


def test_what_was_refused_can_not_be_read(broker: BrokerProcess) -> None:
    """After all of the above the logs are whole: every batch in them is sound."""
    from barnabas.wire.records.batch import problem_of, walk

    with broker.link() as link:
        for topic in ("target", "compressing", *_INFLATED):
            data = talk.fetch(link, (topic, 0), 0)
            found = list(walk(data))
            assert all(problem_of(data, at, header) is None for at, header in found)
            assert sum(parse_header(data, at).size for at, _ in found) == len(data)
