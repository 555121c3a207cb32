"""The files are Kafka's: its own dump tool reads ours, and ours reads its."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat import real_kafka
from tests.compat.clients.dump_tool import Dumped, check_indexes, dump
from tests.compat.clients.probe import Probe
from tests.compat.confluent_client import ConfluentClient
from tests.compat.port import CODECS, Message, Sending
from tests.compat.stage import T

from barnabas.testing import Broker

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not real_kafka.available(), reason="needs Java, and Maven once"),
]

SEGMENT_BYTES = 1 << 20
IDEMPOTENT_TOPIC = "once"


def _messages() -> list[Message]:
    """7 MB that codecs make half as large at best, so that every topic has several segments."""
    chance = random.Random(11)
    plain = [
        Message(value=chance.randbytes(30_000).hex().encode(), key=b"k%d" % n, timestamp=T + n)
        for n in range(120)
    ]
    special = [
        Message(value=None, key=b"tombstone", timestamp=T + 120),
        Message(value=b"v", headers=(("one", b"1"), ("two", None)), timestamp=T + 121),
    ]
    return [*plain, *special]


def _fill(bootstrap: str, messages: list[Message]) -> None:
    client = ConfluentClient(bootstrap)
    for topic in (*CODECS, IDEMPOTENT_TOPIC):
        probe = Probe(bootstrap)
        probe.make_topic(topic, 1, segment_bytes=str(SEGMENT_BYTES))
        probe.reconnect()
        idempotent = topic == IDEMPOTENT_TOPIC
        sending = Sending(codec="none" if idempotent else topic, idempotent=idempotent)
        for start in range(0, len(messages), 3):
            results = client.produce(topic, messages[start : start + 3], sending)
            assert {result.error for result in results} == {None}
    client.close()


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    return _messages()


@pytest.fixture(scope="module")
def ours(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that Barnabas wrote and closed."""
    directory = tmp_path_factory.mktemp("ours")
    with Broker(memory=False, data=directory) as broker:
        _fill(broker.bootstrap_servers, messages)
    return directory


@pytest.fixture(scope="module")
def theirs(messages: list[Message], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that Apache Kafka wrote and closed."""
    kafka = real_kafka.RealKafka(directory=tmp_path_factory.mktemp("theirs"))
    with kafka:
        _fill(kafka.bootstrap_servers, messages)
    return kafka.log_dir


def _of(files: list[Dumped], suffix: str) -> list[Dumped]:
    return [file for file in files if file.path.suffix == suffix]


@pytest.mark.parametrize("topic", [*CODECS, IDEMPOTENT_TOPIC])
def test_kafkas_tool_reads_our_files(topic: str, ours: Path, messages: list[Message]) -> None:
    files = dump(ours / f"{topic}-0")
    logs = _of(files, ".log")
    assert len(logs) >= 3
    assert set.union(*(log.codecs for log in logs)) <= {topic, "none"}
    if topic in CODECS:
        assert topic in set.union(*(log.codecs for log in logs))
    records = [record for log in logs for record in log.records]
    assert [record.offset for record in records] == list(range(len(messages)))
    for record, message in zip(records, messages, strict=True):
        assert record.timestamp == message.timestamp
        assert record.key == (None if message.key is None else message.key.decode())
        assert record.payload == (None if message.value is None else message.value.decode())
        assert record.header_keys == tuple(name for name, _ in message.headers)
    for suffix in (".index", ".timeindex"):
        assert any(file.entries for file in _of(files, suffix))


def test_kafkas_tool_finds_our_indexes_sane(ours: Path) -> None:
    said = check_indexes(ours / "none-0")
    assert said.count("passed sanity check") == len(list((ours / "none-0").glob("*.index")))


def test_kafkas_tool_reads_our_producer_snapshots(ours: Path, messages: list[Message]) -> None:
    files = dump(ours / f"{IDEMPOTENT_TOPIC}-0")
    (producer,) = set.union(*(log.producers for log in _of(files, ".log")))
    assert producer >= 0
    snapshots = _of(files, ".snapshot")
    assert snapshots
    last = snapshots[-1].entries[-1]
    assert f"producerId: {producer} producerEpoch: 0" in last
    assert f"lastSequence: {len(messages) - 1} lastOffset: {len(messages) - 1} " in last


@pytest.mark.parametrize("topic", [*CODECS, IDEMPOTENT_TOPIC])
def test_our_tool_reads_kafkas_files(topic: str, theirs: Path, messages: list[Message]) -> None:
    assert len(list((theirs / f"{topic}-0").glob("*.log"))) >= 3
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "log",
        "dump",
        str(theirs / f"{topic}-0"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["offset"] for row in rows] == list(range(len(messages)))
    for row, message in zip(rows, messages, strict=True):
        assert row["timestamp"] == message.timestamp
        assert row["key"] == (None if message.key is None else message.key.decode())
        assert row["value"] == (None if message.value is None else message.value.decode())
    assert len(rows[-1]["headers"]) == len(messages[-1].headers)
