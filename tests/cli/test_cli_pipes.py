"""`barnabas produce` and `barnabas consume`: pipes in, pipes out."""

import json
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import COMMAND, WAIT_S, Run, environment

from barnabas.testing import Broker

Ok = Callable[..., str]


def read(ok: Ok, topic: str, *more: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ok("consume", topic, "-e", "--json", *more).splitlines()]


def test_two_messages_without_keys_land_on_two_partitions(ok: Ok, topic: str) -> None:
    ok("produce", topic, stdin="one\ntwo\n")
    found = read(ok, topic)
    assert sorted(each["partition"] for each in found) == [0, 1]
    assert {each["value"] for each in found} == {"one", "two"}
    assert {each["timestamp_type"] for each in found} == {"CreateTime"}


def test_real_pipes(process: Run, topic: str) -> None:
    sent = process("produce", topic, stdin="one\ntwo\n")
    assert (sent.returncode, sent.stdout, sent.stderr) == (0, "", "")
    got = process("consume", topic, "--until-end")
    assert (got.returncode, got.stderr) == (0, "")
    assert sorted(got.stdout.splitlines()) == ["one", "two"]


def test_keys_headers_timestamps_and_nulls(ok: Ok, topic: str) -> None:
    ok("produce", topic, "--key-separator", ":", "--null-value", "gone", "--header", "a=1",
       "--header", "b=", "--timestamp", "2026-01-02T03:04:05Z", "--compression", "gzip",
       stdin="k1:v:1\nk2:gone\n")  # fmt: skip
    found = sorted(read(ok, topic), key=lambda each: str(each["key"]))
    assert [(each["key"], each["value"]) for each in found] == [("k1", "v:1"), ("k2", None)]
    assert found[0]["headers"] == [["a", "1"], ["b", ""]]
    assert found[0]["timestamp"] == 1767323045000
    assert set(found[0]) == {
        "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers",
    }  # fmt: skip


def test_keys_go_where_java_sends_them(ok: Ok, topic: str) -> None:
    ok("produce", topic, "--from-json", stdin="".join(
        json.dumps({"key": key, "value": ""}) + "\n" for key in ("21", "foobar", "abc", "a")
    ))  # fmt: skip
    where = {each["key"]: each["partition"] for each in read(ok, topic)}
    # murmur2 as in Java's tests: -973932308, -790332482, 479470107, -1563381124; sign bit off.
    expected = {"21": -973932308, "foobar": -790332482, "abc": 479470107, "a": -1563381124}
    assert where == {key: (number & 0x7FFFFFFF) % 2 for key, number in expected.items()}


def test_what_consume_prints_produce_reads(ok: Ok, topic: str, tmp_path: Path) -> None:
    lines = [
        {"key": {"base64": "/w=="}, "value": "plain", "headers": [["h", {"base64": "/v8="}]]},
        {"key": None, "value": None, "partition": 1, "timestamp": 1700000000000},
        {"value": {"any": ["JSON", 1]}, "partition": 0},
    ]
    file = tmp_path / "lines.json"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ok("produce", topic, "--from-json", "--file", str(file))
    copy = f"{topic}-copy"
    ok("topic", "create", copy, "--partitions", "2")
    ok("produce", copy, "--from-json", stdin=ok("consume", topic, "--until-end", "--json"))

    def without_names(name: str) -> list[tuple[object, ...]]:
        return sorted(
            tuple(json.dumps(each[field]) for field in ("partition", "offset", "timestamp", "key",
                                                        "value", "headers"))
            for each in read(ok, name)
        )  # fmt: skip

    assert without_names(copy) == without_names(topic)
    values = {json.dumps(each["value"]) for each in read(ok, topic)}
    assert json.dumps('{"any":["JSON",1]}') in values


def test_where_to_begin_and_where_to_stop(ok: Ok, topic: str) -> None:
    ok("produce", topic, "--partition", "0", stdin="a\nb\nc\nd\n")
    one = ("consume", topic, "--partition", "0")
    assert ok(*one, "-e") == "a\nb\nc\nd\n"
    assert ok(*one, "--max", "2") == "a\nb\n"
    assert ok(*one, "-e", "--from", "2") == "c\nd\n"
    assert ok(*one, "-e", "--from", "-1") == "d\n"
    assert ok(*one, "-e", "--from", "end") == ""
    assert ok(*one, "--from", "-10m", "--max", "1") == "a\n"
    assert ok(*one, "--from", "2100-01-01", "--timeout", "0.1") == ""
    assert ok(*one, "-e", "--format", r"{offset}\t{key}={value}", "--null-value", "-") == (
        "0\t-=a\n1\t-=b\n2\t-=c\n3\t-=d\n"
    )
    assert ok("consume", topic, "--timeout", "0.2").splitlines() == ["a", "b", "c", "d"]


def test_following_shows_what_comes_and_head_ends_it(ok: Ok, topic: str, broker: Broker) -> None:
    following = subprocess.Popen(
        [*COMMAND, "consume", topic],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(broker.bootstrap_servers),
    )  # fmt: skip
    try:
        assert following.stdout is not None
        assert following.stderr is not None
        ok("produce", topic, "--message", "first")
        assert following.stdout.readline() == "first\n"
        ok("produce", topic, "--message", "second")
        assert following.stdout.readline() == "second\n"
        following.stdout.close()  # as `head` does when it has enough
        assert following.wait(WAIT_S) == 0
        assert following.stderr.read() == ""
    finally:
        following.kill()
        following.wait()
        if following.stderr is not None:
            following.stderr.close()


def test_ctrl_c_ends_following_with_0(ok: Ok, topic: str, broker: Broker) -> None:
    ok("produce", topic, "--message", "first")
    with subprocess.Popen(
        [*COMMAND, "consume", topic], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(broker.bootstrap_servers),
    ) as following:  # fmt: skip
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        following.send_signal(2)
        _, said = following.communicate(timeout=WAIT_S)
        assert (following.returncode, said) == (0, "")


def test_a_topic_the_broker_makes_is_mentioned(run: Run, ok: Ok) -> None:
    name = f"new-{uuid.uuid4().hex[:8]}"
    done = run("produce", name, "--message", "x")
    assert done.returncode == 0
    assert name in done.stderr
    assert ok("consume", name, "-e") == "x\n"


def refused(run: Run, *arguments: str, stdin: str = "") -> str:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 1, done
    assert done.stderr.startswith("barnabas: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_what_can_not_be_done_is_said(run: Run, ok: Ok, topic: str) -> None:
    assert "There is no topic" in refused(run, "consume", "nothing", "-e")
    assert "no partition 9" in refused(run, "consume", topic, "-e", "--partition", "9")
    assert "no partition 2" in refused(run, "produce", topic, "--partition", "2", stdin="x\n")
    assert "Line 2" in refused(run, "produce", topic, "--key-separator", ":", stdin="a:b\nc\n")
    assert ok("consume", topic, "-e") == "b\n"
    assert "Line 1 is not JSON" in refused(run, "produce", topic, "--from-json", stdin="{\n")
    assert "point in time" in refused(run, "consume", topic, "--from", "yesterday")
    assert "{nothing}" in refused(run, "consume", topic, "--format", "{nothing}")
    assert "answers" in refused(run, "consume", topic, "-b", "127.0.0.1:1")
    assert "can not be the name" in refused(run, "produce", "no/slash", stdin="x\n")
