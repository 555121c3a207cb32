"""Batches that other implementations wrote are read, and they read ours.

The files in `java/` were written by the Java client of Kafka 4.3.1.
"""

from pathlib import Path
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records  # type: ignore[import-untyped]
from kafka.record import default_records as kafka_python_records  # type: ignore[import-untyped]

from barnabas.wire.records.batch import parse_header
from barnabas.wire.records.compression import CODEC_NAMES, CODECS_BY_NAME, GZIP, NONE
from barnabas.wire.records.record import Record, decode_batch, encode_batch, recompress

JAVA = Path(__file__).parent / "java"
JAVA_HEADERS = [("h", b"x"), ("\u00e9", None)]
JAVA_RECORDS = [
    Record(100, 1700000000005, b"key", b"value", []),
    Record(101, 1700000000000, None, b"no key", []),
    Record(103, 1700000000300, b"tombstone", None, JAVA_HEADERS),
    Record(104, 1700000000200, b"", b"", []),
    Record(109, 1700000000100, b"big", b"z" * 200, JAVA_HEADERS),
]
RECORDS = [
    Record(
        offset,
        1700000000000 + offset * 7 % 50,
        None if offset % 5 == 0 else b"key %d" % offset,
        None if offset % 7 == 0 else b"value %d " % offset * (offset % 40),
        [("trace", b"%d" % offset), ("none", None)] if offset % 3 == 0 else [],
    )
    for offset in range(500)
]
# kafka-python's other codecs want libraries of their own; aiokafka has all four.
PEERS = [
    *(
        pytest.param(aiokafka_records, codec, id=f"aiokafka-{CODEC_NAMES[codec]}")
        for codec in CODEC_NAMES
    ),
    *(
        pytest.param(kafka_python_records, codec, id=f"kafka-python-{CODEC_NAMES[codec]}")
        for codec in (NONE, GZIP)
    ),
]
peers = pytest.mark.parametrize(("peer", "codec"), PEERS)


def from_java(name: str) -> bytes:
    return bytes.fromhex((JAVA / f"{name}.hex").read_text())


@pytest.mark.parametrize("name", CODECS_BY_NAME)
def test_java_batches_are_read(name: str) -> None:
    batch = from_java(name)
    header = parse_header(batch)
    assert header.codec == CODECS_BY_NAME[name]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 3, 7)
    assert decode_batch(batch) == JAVA_RECORDS


@pytest.mark.parametrize("name", CODECS_BY_NAME)
def test_java_batches_with_append_time_are_read(name: str) -> None:
    assert decode_batch(from_java(f"{name}-append")) == [
        record._replace(timestamp=1700000009999) for record in JAVA_RECORDS
    ]


def test_we_write_what_java_writes() -> None:
    ours = encode_batch(
        JAVA_RECORDS,
        leader_epoch=9,
        producer_id=42,
        producer_epoch=3,
        base_sequence=7,
        transactional=True,
    )
    assert ours == from_java("none")
    assert recompress(from_java("zstd"), 0, NONE) == ours


@peers
def test_peers_batches_are_read(peer: Any, codec: int) -> None:
    builder = peer.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
        batch_size=1 << 24,
    )
    for record in RECORDS:
        builder.append(*record)
    assert decode_batch(builder.build()) == RECORDS


@peers
def test_peers_read_our_batches(peer: Any, codec: int) -> None:
    theirs = peer.DefaultRecordBatch(encode_batch(RECORDS, codec=codec))
    assert theirs.validate_crc()
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        for record in theirs
    ] == RECORDS
