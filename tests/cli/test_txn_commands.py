"""`barnabas txn`, against a real broker (BARNABAS_TEST_BOOTSTRAP names another one)."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from tests.cli.conftest import WAIT_S, Run
from tests.cli.test_group_commands import refused

from barnabas.testing import Broker

Ok = Callable[..., str]


@pytest.fixture
def name() -> str:
    """A transactional id no other test has."""
    return f"txn-{uuid.uuid4().hex[:8]}"


@contextmanager
def opened(broker: Broker, name: str, topic: str) -> Iterator[Producer]:
    """A producer in the midst of a transaction."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "linger.ms": 0,
         # What it says when its broker has gone is not what the command says.
         "log_level": 0}
    )  # fmt: skip
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"half", partition=0)
    producer.flush(WAIT_S)
    yield producer


def listed(ok: Ok, *arguments: str) -> dict[str, dict[str, Any]]:
    return {
        each["transactional_id"]: each
        for each in json.loads(ok("txn", "list", "--json", *arguments))
    }


def described(ok: Ok, name: str) -> dict[str, Any]:
    (found,) = json.loads(ok("txn", "describe", name, "--json"))
    assert isinstance(found, dict)
    return found


def test_list_and_describe(ok: Ok, broker: Broker, topic: str, name: str) -> None:
    with opened(broker, name, topic) as producer:
        assert listed(ok)[name]["state"] == "Ongoing"
        assert name in listed(ok, "--state", "ongoing", "--pattern", "txn-.*")
        assert name not in listed(ok, "--state", "empty")
        assert name not in listed(ok, "--longer-than", "1h")
        found = described(ok, name)
        assert found["state"] == "Ongoing"
        assert found["partitions"] == [{"topic": topic, "partition": 0}]
        assert found["open_for_ms"] >= 0
        text = ok("txn", "describe", name)
        assert f"{name}: Ongoing" in text
        assert f"{topic}:0" in text
        producer.commit_transaction(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while (found := described(ok, name))["state"] != "CompleteCommit":
        assert time.monotonic() < deadline
    assert found["open_for_ms"] is None
    assert name not in listed(ok, "--longer-than", "0ms")
    assert name in ok("txn", "list")


def test_describe_keeps_to_the_order_of_the_names(ok: Ok, broker: Broker, topic: str) -> None:
    first, second = "txn-b-order", "txn-a-order"
    with opened(broker, first, topic), opened(broker, second, topic):
        lines = ok("txn", "describe", first, second, first).splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles == [f"{first}: Ongoing", f"{second}: Ongoing"]


def test_abort_by_id_fences_the_producer(ok: Ok, broker: Broker, topic: str, name: str) -> None:
    with opened(broker, name, topic) as producer:
        told = json.loads(ok("txn", "abort", name, "--yes", "--json"))
        assert told == {"aborted": name, "was": "Ongoing"}
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(WAIT_S)
        assert caught.value.args[0].fatal()
    assert described(ok, name)["partitions"] == []


def test_one_that_hangs_is_found_and_ended(ok: Ok, broker: Broker, topic: str, name: str) -> None:
    """The producer's own transaction is known to its coordinator, and so does not hang. To the one
    who aborts it in the partition that makes no difference."""
    with opened(broker, name, topic):
        assert json.loads(ok("txn", "list", "--hanging", "--longer-than", "0ms", "--json")) == []
        assert "is aborted" in ok("txn", "abort", "--partition", f"{topic}:0", "--yes")


def test_mistakes(run: Run, ok: Ok, topic: str) -> None:
    assert "txn list" in refused(run, "txn", "describe", "nobody")
    assert "txn list" in refused(run, "txn", "abort", "nobody", "--yes")
    assert "nothing to abort" in refused(run, "txn", "abort", "--partition", f"{topic}:0", "-y")
    assert "no partition 7" in refused(run, "txn", "abort", "--partition", f"{topic}:7", "-y")
    assert "time span" in refused(run, "txn", "list", "--longer-than", "soon")
    for arguments in (
        ["list", "--state", "asleep"],
        ["list", "--hanging", "--state", "empty"],
        ["abort"],
        ["abort", "a", "--partition", "b:0"],
        ["abort", "a", "--producer-id", "1"],
        ["abort", "--partition", "nowhere", "-y"],
    ):
        assert run("txn", *arguments).returncode == 2, arguments


def test_what_the_log_says_of_transactions(ok: Ok, topic: str, name: str, tmp_path: Path) -> None:
    with Broker(memory=False, data=tmp_path) as own, opened(own, name, topic) as producer:
        producer.commit_transaction(WAIT_S)
    shown = [json.loads(line) for line in ok("log", "dump", str(tmp_path), "--json").splitlines()]
    told = [each for each in shown if each["topic"] == "__transaction_state"]
    assert {each["key"]["transactional_id"] for each in told} == {name}
    assert told[-1]["value"]["status"] in (2, 4)
    assert any(
        each["value"]["partitions"] == [{"topic": topic, "partitions": [0]}] for each in told
    )
