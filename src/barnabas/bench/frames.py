"""The few requests the benchmarks send, as bytes, and where their answers hold what matters.

Encoded by hand: every field but the correlation id (and the fetch offset) is written once, so a
request costs the generator one patch. Topic names all have the same length, which fixes every
position; that is what lets the limit server find the records without parsing.
"""

import struct
from collections.abc import Sequence
from typing import Final

from barnabas.bench.payload import unsigned_varint
from barnabas.model.check import require

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
PRODUCE_VERSION: Final = 11
FETCH_VERSION: Final = 12

CLIENT_ID: Final = b"barnabas-bench"
TOPIC_BYTES: Final = 16
CORRELATION_AT: Final = 8
TIMEOUT_MS: Final = 30_000

REQUEST_HEAD: Final = struct.Struct(">ihhi")
"""size, api key, api version, correlation id"""
CORRELATION: Final = struct.Struct(">i")
OFFSET: Final = struct.Struct(">q")

_BODY_AT: Final = REQUEST_HEAD.size + 2 + len(CLIENT_ID) + 1
RECORDS_LENGTH_AT: Final = _BODY_AT + 1 + 2 + 4 + 1 + 1 + TOPIC_BYTES + 1 + 4
"""Where a Produce frame says how long its records are."""
PRODUCE_TAIL: Final = b"\0\0\0"
"""No tagged fields: of the partition, of the topic, of the request."""

PRODUCE_PARTITION_AT: Final = RECORDS_LENGTH_AT - 4
"""Where a Produce frame says which partition it is for."""

FETCH_OFFSET_AT: Final = _BODY_AT + 4 * 4 + 1 + 4 + 4 + 1 + 1 + TOPIC_BYTES + 1 + 4 + 4
FETCH_PARTITION_AT: Final = FETCH_OFFSET_AT - 8
FETCH_BYTES_AT: Final = FETCH_OFFSET_AT + 8 + 4 + 8

PRODUCE_ANSWER: Final = struct.Struct(f">ii{1 + 1 + 1 + TOPIC_BYTES + 1 + 4}xh")
"""size, correlation id, error code of the one partition"""
FETCH_ANSWER: Final = struct.Struct(f">ii5xh{4 + 1 + 1 + TOPIC_BYTES + 1 + 4}xhq")
"""size, correlation id, error code, error code of the one partition, high watermark"""
FETCHED_LENGTH_AT: Final = FETCH_ANSWER.size + 8 + 8 + 1 + 4
"""Where a Fetch answer says how long its records are (no aborted transactions before them)."""


def request(key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    """A whole frame with correlation id 0."""
    header_tags = b"\0" if flexible else b""
    rest = struct.pack(">h", len(CLIENT_ID)) + CLIENT_ID + header_tags + body
    return REQUEST_HEAD.pack(8 + len(rest), key, version, 0) + rest


def _compact(data: bytes) -> bytes:
    return unsigned_varint(len(data) + 1) + data


def _bench_topic(topic: str) -> bytes:
    name = topic.encode()
    require(len(name) == TOPIC_BYTES, f"topic names of the benchmarks have {TOPIC_BYTES} bytes")
    return _compact(name)


def produce(topic: str, records: bytes, *, acks: int) -> bytes:
    """Produce v11 of one batch to partition 0."""
    head = b"\0" + struct.pack(">hi", acks, TIMEOUT_MS) + b"\2" + _bench_topic(topic) + b"\2"
    body = head + struct.pack(">i", 0) + _compact(records) + PRODUCE_TAIL
    return request(PRODUCE, PRODUCE_VERSION, body, flexible=True)


def fetch(topic: str, *, bytes_max: int, wait_ms: int = 500) -> bytes:
    """Fetch v12 from partition 0, offset 0, without a fetch session."""
    head = struct.pack(">iiiibii", -1, wait_ms, 1, max(bytes_max, 50 << 20), 0, 0, -1)
    partition = struct.pack(">iiqiqi", 0, -1, 0, -1, -1, bytes_max) + b"\0"
    body = head + b"\2" + _bench_topic(topic) + b"\2" + partition + b"\0" + b"\1" + b"\1" + b"\0"
    return request(FETCH, FETCH_VERSION, body, flexible=True)


def metadata(topic: str | None, *, create: bool) -> bytes:
    """Metadata v4 for one topic (or none), asking the broker to create it when missing."""
    topics = struct.pack(">i", 0) if topic is None else struct.pack(">i", 1) + _string(topic)
    return request(METADATA, 4, topics + bytes((create,)), flexible=False)


def create_topic(
    topic: str, configs: dict[str, str], partitions: int = 1, replicas: Sequence[int] = ()
) -> bytes:
    """CreateTopics v4: one replica, or one partition whose `replicas` are named, leader first."""
    entries = b"".join(_string(key) + _string(value) for key, value in configs.items())
    body = struct.pack(">i", 1) + _string(topic)
    if replicas:
        body += struct.pack(">ihiii", -1, -1, 1, 0, len(replicas))
        body += struct.pack(f">{len(replicas)}i", *replicas)
    else:
        body += struct.pack(">ihi", partitions, 1, 0)
    body += struct.pack(">i", len(configs)) + entries + struct.pack(">i?", TIMEOUT_MS, False)
    return request(CREATE_TOPICS, 4, body, flexible=False)


def delete_topic(topic: str) -> bytes:
    """DeleteTopics v3."""
    body = struct.pack(">i", 1) + _string(topic) + struct.pack(">i", TIMEOUT_MS)
    return request(DELETE_TOPICS, 3, body, flexible=False)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def produce_answer() -> bytes:
    """What a broker answers to `produce`, with correlation id 0 and an unnamed topic."""
    partition = struct.pack(">ihqqq", 0, 0, 0, -1, 0) + b"\1" + b"\0" + b"\0"
    topics = b"\2" + _compact(bytes(TOPIC_BYTES)) + b"\2" + partition + b"\0"
    body = struct.pack(">i", 0) + b"\0" + topics + struct.pack(">i", 0) + b"\0"
    return struct.pack(">i", len(body)) + body


def fetch_answer_head(records_bytes: int) -> bytes:
    """What comes before the records in the answer to `fetch` (correlation id 0)."""
    partition = struct.pack(">ihqqq", 0, 0, 0, 0, 0) + b"\1" + struct.pack(">i", -1)
    topics = b"\2" + _compact(bytes(TOPIC_BYTES)) + b"\2" + partition
    body = struct.pack(">i", 0) + b"\0" + struct.pack(">ihi", 0, 0, 0) + topics
    body += unsigned_varint(records_bytes + 1)
    return struct.pack(">i", len(body) + records_bytes + 3) + body
