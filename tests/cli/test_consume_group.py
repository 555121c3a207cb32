"""`barnabas consume --group`: what is printed is committed, whatever ends it."""

import json
import signal
import subprocess
import time
import uuid
from collections.abc import Callable

import pytest
from tests.cli.conftest import COMMAND, WAIT_S, Run, environment

from barnabas.testing import Broker

Ok = Callable[..., str]
PROTOCOLS = ["classic", "consumer"]


@pytest.fixture
def group() -> str:
    """A name no other test has."""
    return f"group-{uuid.uuid4().hex[:8]}"


def committed(ok: Ok, group: str) -> int:
    """How many messages the group has behind it, over all partitions."""
    (found,) = json.loads(ok("group", "describe", group, "--json"))
    assert (found["state"], found["members"]) == ("Empty", [])
    return sum(each["committed"] or 0 for each in found["partitions"])


def lines(count: int) -> str:
    return "".join(f"{number}\n" for number in range(count))


@pytest.mark.parametrize(
    ("protocol", "delivery"),
    [
        ("classic", "at-least-once"),
        ("classic", "at-most-once"),
        ("consumer", "at-least-once"),
    ],
)
def test_a_group_goes_on_where_it_stopped(
    ok: Ok, topic: str, group: str, protocol: str, delivery: str
) -> None:
    ok("produce", topic, stdin=lines(10))
    consume = ("consume", topic, "--group", group, "--protocol", protocol, "--delivery", delivery)
    first = ok(*consume, "--max", "3").splitlines()
    assert len(first) == 3
    assert committed(ok, group) == 3
    rest = ok(*consume, "--until-end").splitlines()
    assert sorted(first + rest, key=int) == lines(10).splitlines()
    assert committed(ok, group) == 10
    assert ok(*consume, "--timeout", "0.1") == ""


def test_two_groups_each_see_everything(ok: Ok, topic: str, group: str) -> None:
    ok("produce", topic, stdin=lines(4))
    for name in (group, f"{group}-too"):
        printed = ok("consume", topic, "--group", name, "-e").splitlines()
        assert sorted(printed) == lines(4).splitlines()


def test_from_counts_only_where_nothing_is_committed(ok: Ok, topic: str, group: str) -> None:
    one = ("consume", topic, "--group", group, "-e", "--from", "-1")
    ok("produce", topic, "--partition", "0", stdin=lines(5))
    assert ok(*one) == "4\n"
    ok("produce", topic, "--partition", "0", stdin="5\n6\n7\n")
    assert ok(*one) == "5\n6\n7\n"


def test_looking_moves_nothing_on(ok: Ok, topic: str, group: str) -> None:
    ok("produce", topic, stdin=lines(4))
    look = ("consume", topic, "--group", group, "-e", "--commit", "none")
    assert sorted(ok(*look).splitlines()) == lines(4).splitlines()
    ok("consume", topic, "--group", group, "--max", "1")
    assert len(ok(*look).splitlines()) == 3
    assert committed(ok, group) == 1


class Following:
    """A consumer in a process of its own, with a pipe to read from."""

    def __init__(self, broker: Broker, topic: str, group: str, *more: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "consume", topic, "--group", group, *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(broker.bootstrap_servers),
        )  # fmt: skip

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def read(self, count: int) -> list[str]:
        assert self.process.stdout is not None
        return [self.process.stdout.readline() for _ in range(count)]

    def end(self) -> tuple[int, str, str]:
        """How it ended, and what it said at last."""
        printed, said = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, printed, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_commit_of_what_was_printed(
    ok: Ok, broker: Broker, topic: str, group: str, number: signal.Signals
) -> None:
    ok("produce", topic, stdin=lines(6))
    with Following(broker, topic, group) as following:
        assert sorted(following.read(6)) == sorted(lines(6).splitlines(keepends=True))
        following.process.send_signal(number)
        assert following.end() == (0, "", "")
    assert committed(ok, group) == 6


def test_a_reader_that_has_enough_ends_it(ok: Ok, broker: Broker, topic: str, group: str) -> None:
    with Following(broker, topic, group) as following:
        for count in range(2):
            ok("produce", topic, "--partition", "0", stdin=f"{count}\n")
            assert following.read(1) == [f"{count}\n"]
        assert following.process.stdout is not None
        following.process.stdout.close()  # as `head` does when it has enough
        assert following.process.wait(WAIT_S) == 0
        assert following.process.stderr is not None
        assert following.process.stderr.read() == ""
    assert committed(ok, group) == 2


@pytest.mark.parametrize("options", [(), ("--group", "g")])
def test_head_ends_a_long_output_quietly(
    ok: Ok, broker: Broker, topic: str, group: str, options: tuple[str, ...]
) -> None:
    # More than a pipe holds, so that the end shows while a line is written.
    ok("produce", topic, "--partition", "0", stdin=lines(50_000))
    named = [option.replace("g", group) if option == "g" else option for option in options]
    with subprocess.Popen(
        [*COMMAND, "consume", topic, *named],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(broker.bootstrap_servers),
    ) as consuming:  # fmt: skip
        assert consuming.stdout is not None
        assert consuming.stdout.readline() == "0\n"
        consuming.stdout.close()
        assert consuming.wait(WAIT_S) == 0
        assert consuming.stderr is not None
        assert consuming.stderr.read() == ""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_and_one_that_leaves_takes_nothing_along(
    ok: Ok, broker: Broker, topic: str, group: str, protocol: str
) -> None:
    more = ("--protocol", protocol)
    with Following(broker, topic, group, *more) as one:
        ok("produce", topic, stdin="a\nb\n")
        assert sorted(one.read(2)) == ["a\n", "b\n"]
        with Following(broker, topic, group, *more, "--max", "1") as two:
            deadline = time.monotonic() + WAIT_S
            while len(_members_with_partitions(ok, group)) < 2:
                assert time.monotonic() < deadline
            ok("produce", topic, "--partition", "0", stdin="c\n")
            ok("produce", topic, "--partition", "1", stdin="d\n")
            code, printed, _ = two.end()
        assert (code, [*one.read(1), printed]) in [(0, ["c\n", "d\n"]), (0, ["d\n", "c\n"])]
        # The other has left, so both partitions come back.
        ok("produce", topic, stdin="e\nf\n")
        assert sorted(one.read(2)) == ["e\n", "f\n"]
        one.process.send_signal(signal.SIGINT)
        assert one.end() == (0, "", "")
    assert committed(ok, group) == 6


def _members_with_partitions(ok: Ok, group: str) -> list[str]:
    (found,) = json.loads(ok("group", "describe", group, "--json"))
    return [each["id"] for each in found["members"] if each["partitions"]]


def test_a_static_member_keeps_its_place(ok: Ok, topic: str, group: str) -> None:
    ok("produce", topic, stdin=lines(2))
    ok("consume", topic, "--group", group, "--instance-id", "one", "-e")
    (found,) = json.loads(ok("group", "describe", group, "--json"))
    assert [each["instance_id"] for each in found["members"]] == ["one"]
    assert sum(each["lag"] for each in found["partitions"]) == 0


def test_options_of_groups_need_one(run: Run, topic: str, group: str) -> None:
    for wrong in (
        ("--delivery", "at-most-once"),
        ("--commit", "none"),
        ("--protocol", "consumer"),
        ("--instance-id", "one"),
        ("--group", ""),
        ("--group", group, "--partition", "0"),
        ("--group", group, "--delivery", "perhaps"),
    ):
        assert run("consume", topic, *wrong).returncode == 2, wrong
    done = run("consume", f"{topic}-none", "--group", group)
    assert (done.returncode, "There is no topic" in done.stderr) == (1, True)


def test_a_group_of_the_other_protocol_is_told_apart(
    run: Run, ok: Ok, broker: Broker, topic: str, group: str
) -> None:
    ok("produce", topic, stdin=lines(2))
    with Following(broker, topic, group, "--protocol", "classic") as one:
        one.read(2)
        strategy = ("-X", "partition.assignment.strategy=cooperative-sticky")
        done = run("consume", topic, "--group", group, "--timeout", "1", *strategy)
        one.process.send_signal(signal.SIGTERM)
        assert one.end() == (0, "", "")
    assert done.returncode == 1
    assert "--protocol" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
