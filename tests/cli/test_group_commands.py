"""`barnabas group`, against a real broker (BARNABAS_TEST_BOOTSTRAP names another one)."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.cli.conftest import WAIT_S, Run

from barnabas.testing import Broker

Ok = Callable[..., str]


@pytest.fixture
def group() -> str:
    """A name no other test has."""
    return f"group-{uuid.uuid4().hex[:8]}"


def described(ok: Ok, group: str) -> dict[str, Any]:
    (found,) = json.loads(ok("group", "describe", group, "--json"))
    assert isinstance(found, dict)
    return found


def offsets(ok: Ok, group: str) -> dict[int, int]:
    return {each["partition"]: each["committed"] for each in described(ok, group)["partitions"]}


def refused(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == 1, done
    assert done.stderr.startswith("barnabas: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def filled(ok: Ok, topic: str, count: int = 10) -> None:
    """So many records in both partitions."""
    for number in ("0", "1"):
        ok("produce", topic, "--partition", number, stdin="".join(f"{n}\n" for n in range(count)))


@contextmanager
def joined(broker: Broker, group: str, topic: str, **more: Any) -> Iterator[Consumer]:
    """A consumer that will be a member as soon as it polls."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": "olga",
         "auto.offset.reset": "earliest", "enable.auto.commit": False} | more
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


@contextmanager
def member(broker: Broker, group: str, topic: str, **more: Any) -> Iterator[Consumer]:
    """A consumer that has its partitions."""
    with joined(broker, group, topic, **more) as consumer:
        deadline = time.monotonic() + WAIT_S
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.05)
        yield consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_list_and_describe_a_live_group(
    ok: Ok, broker: Broker, topic: str, group: str, protocol: str
) -> None:
    filled(ok, topic)
    with member(broker, group, topic, **{"group.protocol": protocol}) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        found = described(ok, group)
        listed = json.loads(ok("group", "list", "--type", protocol, "--lag", "--json"))
        text = ok("group", "describe", group)
    assert (found["name"], found["type"], found["state"]) == (group, protocol, "Stable")
    assert found["protocol"] in {"range", "uniform"}
    assert (found["epoch"] is None) == (protocol == "classic")
    (only,) = found["members"]
    assert (only["client_id"], only["host"]) == ("olga", "127.0.0.1")
    assert [each["partition"] for each in only["partitions"]] == [0, 1]
    first, second = found["partitions"]
    assert (first["committed"], first["end_offset"], first["lag"]) == (4, 10, 6)
    assert 0 < first["lag_seconds"] < WAIT_S
    assert first["member_id"] == only["id"]
    assert (second["committed"], second["lag"], second["lag_seconds"]) == (None, None, None)
    assert second["note"] == "nothing committed yet"
    (row,) = (each for each in listed if each["group"] == group)
    assert (row["state"], row["members"], row["lag"]) == ("Stable", 1, 6)
    assert "olga" in text
    assert "nothing committed yet" in text


def test_why_the_last_rebalance_happened(ok: Ok, broker: Broker, topic: str, group: str) -> None:
    before_ms = time.time() * 1000
    with member(broker, group, topic):
        found = described(ok, group)["last_rebalance"]
        text = ok("group", "describe", group)
    if found is None:
        pytest.skip("this broker does not tell")
    assert before_ms - 1000 <= found["at_ms"] <= time.time() * 1000 + 1000
    assert found["reason"]
    assert f": {found['reason']}" in text


def test_members_without_partitions_are_shown(
    ok: Ok, broker: Broker, topic: str, group: str
) -> None:
    ok("topic", "create", f"{topic}-one", "-p", "1")
    with member(broker, group, f"{topic}-one") as one, joined(broker, group, f"{topic}-one") as two:
        found = described(ok, group)
        deadline = time.monotonic() + WAIT_S
        while (found["state"], len(found["members"])) != ("Stable", 2):
            assert time.monotonic() < deadline
            one.poll(0.05)
            two.poll(0.05)
            found = described(ok, group)
        text = ok("group", "describe", group)
    assert sorted(len(each["partitions"]) for each in found["members"]) == [0, 1]
    assert "member without partitions" in text


def test_states_and_types_choose_what_is_listed(ok: Ok, run: Run, topic: str, group: str) -> None:
    filled(ok, topic, 1)
    ok("group", "reset", group, "--topic", topic, "--to-latest", "--execute")

    def names(*options: str) -> set[str]:
        return {each["group"] for each in json.loads(ok("group", "list", "--json", *options))}

    assert group in names("--state", "empty", "--type", "Classic")
    assert group in names("--state", "stable", "--state", "Empty")
    assert group not in names("--state", "stable")
    assert group not in names("--type", "consumer")
    assert group in ok("group", "list")
    assert "no state of a group" in refused(run, "group", "list", "--state", "happy")


def test_a_reset_is_shown_first_and_done_when_told(
    ok: Ok, run: Run, topic: str, group: str
) -> None:
    filled(ok, topic)
    reset = ("group", "reset", group, "--topic", topic, "--to-offset", "3")
    dry = run(*reset, "--json")
    assert json.loads(dry.stdout) == {
        "group": group,
        "executed": False,
        "partitions": [
            {"topic": topic, "partition": number, "old": None, "new": 3, "note": None}
            for number in (0, 1)
        ],
    }
    assert "--execute" in dry.stderr
    assert "There is no group" in refused(run, "group", "describe", group)
    assert "3" in ok(*reset, "--execute")
    assert offsets(ok, group) == {0: 3, 1: 3}


def test_where_a_group_can_be_reset_to(ok: Ok, topic: str, group: str) -> None:
    filled(ok, topic)
    time.sleep(0.01)
    middle_ms = int(time.time() * 1000)
    time.sleep(0.01)
    ok("produce", topic, "--partition", "0", stdin="late\n")

    def reset(*to: str, topics: tuple[str, ...] = ("--all-topics",)) -> dict[int, int]:
        ok("group", "reset", group, *topics, *to, "--execute")
        return offsets(ok, group)

    assert reset("--to-earliest", topics=("--topic", f"{topic}:1")) == {1: 0}
    assert reset("--to-latest", topics=("--topic", topic)) == {0: 11, 1: 10}
    assert reset("--shift-by", "-4") == {0: 7, 1: 6}
    assert reset("--shift-by", "2", topics=("--topic", f"{topic}:0")) == {0: 9, 1: 6}
    assert reset("--to-current") == {0: 9, 1: 6}
    assert reset("--to-time", "2h ago") == {0: 0, 1: 0}
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(middle_ms // 1000))
    # Partition 1 has nothing as new as that: it goes to the end.
    assert reset("--to-time", f"{moment}.{middle_ms % 1000:03d}Z") == {0: 10, 1: 10}


def test_a_reset_stays_within_the_log(ok: Ok, topic: str, group: str) -> None:
    filled(ok, topic)
    place = ("--topic", f"{topic}:0", "--execute")
    assert "beyond the log's end" in ok("group", "reset", group, *place, "--to-offset", "99")
    assert offsets(ok, group) == {0: 10}
    assert "before the log's start" in ok("group", "reset", group, *place, "--shift-by", "-99")
    assert offsets(ok, group) == {0: 0}
    other = ("group", "reset", group, "--topic", f"{topic}:1", "--shift-by", "1", "--execute")
    assert "nothing committed yet" in ok(*other)
    assert offsets(ok, group) == {0: 0}


def test_lag_in_seconds_follows_the_oldest_unread_record(ok: Ok, topic: str, group: str) -> None:
    ok("produce", topic, "--partition", "0", "--timestamp", "-1h", stdin="old\n")
    ok("produce", topic, "--partition", "0", "--timestamp", "-10m", stdin="newer\n")

    def lag(offset: int) -> tuple[int, float]:
        ok("group", "reset", group, "--topic", f"{topic}:0", "--to-offset", str(offset),
           "--execute")  # fmt: skip
        (found,) = described(ok, group)["partitions"]
        return found["lag"], found["lag_seconds"]

    records, seconds = lag(0)
    assert (records, 3600 <= seconds < 3600 + WAIT_S) == (2, True)
    records, seconds = lag(1)
    assert (records, 600 <= seconds < 600 + WAIT_S) == (1, True)
    assert lag(2) == (0, 0.0)


def test_what_was_deleted_before_it_was_read_is_noted(
    ok: Ok, broker: Broker, topic: str, group: str
) -> None:
    from confluent_kafka.admin import AdminClient

    filled(ok, topic)
    ok("group", "reset", group, "--topic", f"{topic}:0", "--to-offset", "2", "--execute")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    deleted.result(WAIT_S)
    (found,) = described(ok, group)["partitions"]
    assert (found["committed"], found["start_offset"], found["lag"]) == (2, 6, 4)
    assert "4 offsets were deleted" in found["note"]
    assert found["lag_seconds"] > 0
    ok("topic", "delete", topic, "--yes")
    for _ in range(100):
        partitions = described(ok, group)["partitions"]
        if not partitions or partitions[0]["end_offset"] is None:
            break
        time.sleep(0.05)
    assert [each["lag"] for each in partitions] in ([], [None])


def test_a_group_with_members_is_neither_reset_nor_deleted(
    run: Run, ok: Ok, broker: Broker, topic: str, group: str
) -> None:
    filled(ok, topic)
    with member(broker, group, topic) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        reset = ("group", "reset", group, "--topic", topic, "--to-earliest")
        said = refused(run, *reset, "--execute")
        assert "olga at 127.0.0.1" in said
        assert "stop its consumers" in said
        dry = run(*reset)
        assert dry.returncode == 0
        assert "olga at 127.0.0.1" in dry.stderr
        assert "olga" in refused(run, "group", "delete", group, "--yes")
        assert "stop its consumers" in refused(
            run, "group", "delete", group, "--topic", topic, "--yes"
        )
        assert offsets(ok, group) == {0: 4, 1: None}
    assert ok("group", "delete", group, "--yes") == f"Deleted {group}.\n"


def test_delete_groups_or_what_they_committed(ok: Ok, run: Run, topic: str, group: str) -> None:
    filled(ok, topic)
    other = f"{topic}-other"
    ok("topic", "create", other, "-p", "1")
    ok("group", "reset", group, "--topic", topic, "--topic", other, "--to-latest", "--execute")
    done = ok("group", "delete", group, "--topic", topic, "--yes", "--json")
    assert json.loads(done) == [{"group": group, "topic": topic, "partitions": 2, "error": None}]
    assert [each["topic"] for each in described(ok, group)["partitions"]] == [other]
    assert "committed nothing" in refused(run, "group", "delete", group, "--topic", topic, "-y")
    assert run("group", "delete", group, stdin="n\n").returncode == 1
    assert described(ok, group)["name"] == group
    assert json.loads(ok("group", "delete", group, "-y", "--json")) == [
        {"group": group, "error": None}
    ]
    assert "There is no group" in refused(run, "group", "delete", group, "--yes")


def test_what_can_not_be_done_is_said(run: Run, ok: Ok, topic: str, group: str) -> None:
    assert "There is no group" in refused(run, "group", "describe", group)
    reset = ("group", "reset", group)
    assert "There is no group" in refused(run, *reset, "--all-topics", "--to-latest")
    assert "There is no topic" in refused(run, *reset, "--topic", group, "--to-latest")
    assert "no partition 7" in refused(run, *reset, "--topic", f"{topic}:0,7", "--to-latest")
    assert "orders:0,2" in refused(run, *reset, "--topic", f"{topic}:x", "--to-latest")
    assert "point in time" in refused(run, *reset, "--topic", topic, "--to-time", "2 moons ago")
    for command in ("list", "describe --all", f"delete {group} --yes"):
        assert "barnabas up" in refused(run, "group", *command.split(), "-b", "127.0.0.1:1")
    for wrong in (
        ("describe",),
        ("describe", group, "--all"),
        ("reset", group, "--to-latest"),
        ("reset", group, "--topic", topic),
        ("reset", group, "--topic", topic, "--to-latest", "--to-earliest"),
        ("reset", group, "--topic", topic, "--all-topics", "--to-latest"),
    ):
        assert run("group", *wrong).returncode == 2, wrong
    assert offsets_of_nobody(ok, group)


def offsets_of_nobody(ok: Ok, group: str) -> bool:
    """Whether none of the refused commands made the group."""
    return group not in ok("group", "list")
