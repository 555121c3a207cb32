"""A disk that fills up under a pipeline that runs, and has room again later."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable

from barnabas.testing import Broker

PATIENCE_S = 240.0

FILE = """\
pipeline: full
servers: {servers}
state: small/state
sources:
  words: {{topic: words, format: text}}
sinks:
  copy: {{from: words, topic: copies, format: text}}
  kept: {{from: words, table: small/words}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, with room for four megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def eventually(asked: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := asked()) != wanted:
        assert time.monotonic() < deadline, f"{found} instead of {wanted}"
        time.sleep(0.2)


def feed(servers: str, *words: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for word in words:
        producer.produce("words", word)
    assert producer.flush(60) == 0


def copies(servers: str) -> list[bytes]:
    """What is committed."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "judge", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("copies", 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(60)
        assert message is not None
        problem = message.error()
        if problem is not None:
            assert problem.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return sorted(found)
        found.append(message.value() or b"")


def fill(folder: Path) -> Path:
    """To the last byte."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


def rows(small: Path) -> int:
    return int(DeltaTable(small / "words").count())


@pytest.mark.timeout(3 * PATIENCE_S)
def test_a_full_disk_is_named_and_waited_for(small: Path, broker: Broker) -> None:
    servers = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic("words", 1), NewTopic("copies", 1)]).values():
        made.result(60)
    file = small.parent / "full.yaml"
    file.write_text(FILE.format(servers=servers))
    feed(servers, "a", "b")
    said = small.parent / "said"
    with said.open("w") as out:
        run = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "pipeline", "run", str(file), "--json",
             "--master", "local[2]"], stdout=out, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip
    try:
        eventually(lambda: copies(servers), [b"a", b"b"])
        eventually(lambda: (small / "words" / "_delta_log").is_dir() and rows(small), 2)
        filler = fill(small)
        feed(servers, "c")
        eventually(lambda: {"copy", "kept"} <= died(said, str(small)), True)
        # Whole or not at all: no version of the table has anything but all rows of its batches.
        assert rows(small) in (2, 3)
        assert copies(servers) in ([b"a", b"b"], [b"a", b"b", b"c"])
        filler.unlink()
        eventually(lambda: copies(servers), [b"a", b"b", b"c"])
        eventually(lambda: rows(small), 3)
        feed(servers, "d")
        eventually(lambda: copies(servers), [b"a", b"b", b"c", b"d"])
        eventually(lambda: rows(small), 4)
    finally:
        run.send_signal(signal.SIGINT)
        assert run.wait(PATIENCE_S) == 130


def died(said: Path, folder: str) -> set[str]:
    """The queries that died of it, in a sentence that says so."""
    events = [json.loads(line) for line in said.read_text().splitlines(keepends=True)[:-1]]
    return {
        each["query"]
        for each in events
        if each["event"] == "died" and folder in each["sentence"] and "room" in each["sentence"]
    }
