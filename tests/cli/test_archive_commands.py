"""`barnabas archive` and `barnabas replay` as people run them."""

import json
import os
import re
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.cli.conftest import COMMAND, environment
from typer.testing import CliRunner

from barnabas.cli.app import app
from barnabas.cli.replay import _places
from barnabas.model.errors import BarnabasError
from barnabas.testing import Broker

RECORDS = 40
LITTLE_BYTES = 256 * 1024
PATIENCE_S = 300.0
pytestmark = pytest.mark.timeout(3 * PATIENCE_S)


def make(broker: Broker, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    made = admin.create_topics([NewTopic(topic, 2, 1) for topic in topics])
    for done in made.values():
        done.result()


def values(broker: Broker, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    found: list[bytes | None] = []
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in (0, 1)])
    while len(found) < RECORDS:
        message = consumer.poll(60)
        assert message is not None, f"only {len(found)} records came"
        assert message.error() is None
        found.append(message.value())
    assert consumer.poll(1) is None
    consumer.close()
    return found


def ran(broker: Broker, *arguments: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*COMMAND, *arguments, "-X", "client.id=tests", "--master", "local[1]", "--json"],
        env=environment(broker.bootstrap_servers),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    # Spark's own words are in a file: a person sees the command's, and here there are none.
    assert [done.returncode, done.stderr] == [0, ""]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_there_and_back(broker: Broker, tmp_path: Path) -> None:
    make(broker, "archived", "replayed")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for n in range(RECORDS):
        producer.produce("archived", b"%d" % n, partition=n % 2)
    assert producer.flush(60) == 0
    folder = tmp_path / "archive"
    events = ran(broker, "archive", "archived", str(folder), "--once")
    assert [events[0]["event"], events[0]["records"]] == ["batch", RECORDS]
    assert [events[-1]["event"], events[-1]["records"], events[-1]["ranges"]] == [
        "end",
        RECORDS,
        {"0": [0, RECORDS // 2], "1": [0, RECORDS // 2]},
    ]
    assert (folder / "_spark.log").exists()
    events = ran(broker, "replay", str(folder), "replayed")
    assert events[-1] == {"event": "end", "chunks": 1, "of_chunks": 1, "records": RECORDS}
    assert sorted(values(broker, "replayed"), key=lambda value: int(value or b"")) == [
        b"%d" % n for n in range(RECORDS)
    ]
    refused = said("replay", str(folder), "replayed", "-b", broker.bootstrap_servers)
    assert "is done, about 40 records: give --again" in refused
    beyond = ["--to-offset", f"0:{RECORDS}", "-b", broker.bootstrap_servers]
    assert "can not be replayed up to 40: choose" in said(
        "replay", str(folder), "replayed", *beyond
    )


def no_large_files() -> None:
    """As on a disk that is full, and without one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LITTLE_BYTES, LITTLE_BYTES))


@pytest.mark.slow
def test_a_disk_without_room_is_named_in_one_sentence(broker: Broker, tmp_path: Path) -> None:
    make(broker, "large")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(RECORDS):
        producer.produce("large", os.urandom(LITTLE_BYTES // 8), partition=0)
    assert producer.flush(60) == 0
    folder = tmp_path / "archive"
    done = subprocess.run(
        [*COMMAND, "archive", "large", folder, "--once", "--restarts", "0", "--master", "local[1]"],
        env=environment(broker.bootstrap_servers),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        preexec_fn=no_large_files,
    )
    assert done.returncode == 1
    *died, last = done.stderr.splitlines()
    assert last.startswith(f"barnabas: The disk of {folder} and of ")
    assert "takes no larger files: nothing half-written can be seen" in last
    # No line of a trace, and none of a plan.
    assert all(line.startswith("Query archive large died: The disk of ") for line in died)
    assert "Traceback (most recent call last)" in (folder / "_spark.log").read_text()


def said(*arguments: str) -> str:
    """What a command refuses with: one sentence."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 1
    return str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["archive", "t", "d", "--every", "soon"], "'soon' is no time span"),
        (["archive", "t", "d", "--target-size", "big"], "--target-size is 'big'"),
        (["archive", "t", "d", "--codec", "lzma"], "--codec lzma: it is zstd"),
        (["archive", "t", "d", "-X", "security.protocol=SASL_SSL"], "asks for SASL, which"),
        (["replay", "d", "t", "--from-offset", "7"], "--from-offset 7: write a partition and"),
        (["replay", "d", "t", "--to-offset", "7"], "--to-offset 7: write a partition and"),
        (["replay", "d", "t", "--to-offset", "0:-1"], "--to-offset 0:-1: write a partition and"),
        (["replay", "d", "t", "--to-offset", ""], "--to-offset : write a partition and"),
        (
            ["replay", "d", "t", "--from-offset", "0:9", "--to-offset", "0:8"],
            "--to-offset 0:8 is before --from-offset 0:9: choose an end",
        ),
        (
            ["replay", "d", "t", "--from-offset", "0:9", "--to-offset", "0:9"],
            "There is no archive in",
        ),
        (
            ["replay", "d", "t", "--from-offset", "1:9", "--to-offset", "0:8"],
            "There is no archive in",
        ),
        (
            ["replay", "d", "t", "--from-offset", "0:5", "--from-offset", "00:9"],
            "--from-offset 00:9: partition 0 is given twice; give it once.",
        ),
        (
            ["replay", "d", "t", "--to-offset", "1:5", "--to-offset", "1:5"],
            "--to-offset 1:5: partition 1 is given twice; give it once.",
        ),
        (["replay", "d", "t", "--since", "then"], "'then' is no point in time"),
        (["replay", "d", "t"], "There is no archive in"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in said(*arguments)
    assert not list(tmp_path.iterdir())


@given(st.dictionaries(st.integers(0, 10**10 - 1), st.integers(0, 10**19 - 1), max_size=5))
def test_places_are_partitions_and_offsets(places: dict[int, int]) -> None:
    texts = [f"{partition}:{offset}" for partition, offset in places.items()]
    assert _places("--to-offset", texts) == tuple(sorted(places.items()))


@given(st.text() | st.from_regex(r"[-+0-9:_ ]*", fullmatch=True))
def test_any_other_text_is_refused_with_one_sentence(text: str) -> None:
    assume(re.fullmatch("[0-9]{1,10}:[0-9]{1,19}", text) is None)
    sentence = f"--to-offset {text}: write a partition and an offset, such as 0:1000."
    with pytest.raises(BarnabasError, match=re.escape(sentence)):
        _places("--to-offset", [text])


def test_help_says_that_the_end_is_not_replayed() -> None:
    told = " ".join(CliRunner().invoke(app, ["replay", "--help"]).output.split())
    assert "--to-offset P:O Partition P up to offset O, without O; repeatable." in told
