"""`barnabas cluster` and `barnabas events`, as far as one broker goes; clusters have runs of their
own (`make test-roll`, `make test-drain`)."""

import json
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from tests.cli.conftest import COMMAND, Run, environment

from barnabas.cli import cluster_link, cluster_lock, cluster_moves, main
from barnabas.cli.brokers import NoAnswerError
from barnabas.cli.cluster_life import Life
from barnabas.cli.cluster_link import BROKER, TOPIC, ClusterLink
from barnabas.cli.cluster_lock import GROUP, OperatorLock
from barnabas.cli.cluster_moves import Mover
from barnabas.cli.cluster_restarts import filled_in, restart_by_command, restart_by_pid
from barnabas.cli.cluster_status import gather, lines
from barnabas.cli.cluster_throttle import RATES, REPLICAS, listed, throttle, unthrottle
from barnabas.cli.progress_line import ProgressLine
from barnabas.log.names import LOCK
from barnabas.model.errors import BarnabasError
from barnabas.node.local_cluster import pid_file
from barnabas.operating.plan import Change
from barnabas.operating.snapshot import (
    BrokerFacts,
    Moving,
    PartitionFacts,
    Place,
    Snapshot,
    TopicFacts,
)
from barnabas.testing import Broker

Ok = Callable[..., str]


def number_of(ok: Ok) -> int:
    (broker,) = json.loads(ok("cluster", "status", "--json"))["brokers"]
    return int(broker["id"])


def test_status_tells_of_brokers_and_of_what_is_wrong(ok: Ok, topic: str) -> None:
    ok("produce", topic, stdin="a\nb\n")
    found = json.loads(ok("cluster", "status", "--json"))
    (broker,) = found["brokers"]
    assert found["healthy"]
    assert found["controller"] == broker["id"]
    assert broker["leads"] == broker["replicas"] == found["partitions"] >= 2
    assert broker["bytes"] > 0
    assert not broker["cordoned"]
    assert (found["offline"], found["under_min_isr"], found["moves"]) == ([], [], [])
    text = ok("cluster", "status")
    assert "broker  address" in text
    assert text.endswith("healthy\n")


def test_one_broker_is_balanced(ok: Ok, topic: str) -> None:
    assert "0 replicas to copy" in ok("cluster", "balance", "--dry-run")
    assert json.loads(ok("cluster", "balance", "--json"))["moved_bytes"] == 0
    assert ok("cluster", "balance", "--cancel").startswith("0 moves")


def test_the_only_broker_can_not_be_drained(ok: Ok, run: Run, topic: str) -> None:
    number = number_of(ok)
    for more in ([], ["--dry-run"]):
        done = run("cluster", "drain", str(number), *more)
        assert done.returncode == 1
        assert f"without broker {number} there is no other broker left" in done.stderr
        assert done.stderr.count("\n") == 1
    # Nothing was begun: it takes new topics as before.
    assert not json.loads(ok("cluster", "status", "--json"))["brokers"][0]["cordoned"]


def test_a_broker_that_is_not_there_can_not_be_drained_or_restarted(run: Run) -> None:
    for command in (["drain", "77"], ["roll", "--broker", "77"]):
        done = run("cluster", *command)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "There is no broker 77" in done.stderr


def test_a_second_command_is_refused_and_the_first_named(
    ok: Ok, run: Run, broker: Broker, topic: str
) -> None:
    with OperatorLock(broker.bootstrap_servers, "drain 3"):
        for command in (["balance"], ["drain", str(number_of(ok)), "--cancel"]):
            done = run("cluster", *command)
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)
            assert (
                f"`barnabas cluster drain 3` is running (on {socket.gethostname()}" in done.stderr
            )
        assert "cluster" not in run("cluster", "balance", "--dry-run").stderr
    ok("cluster", "balance")
    assert f"{GROUP}  classic  Empty" in ok("group", "describe", GROUP)


def test_throttles_are_set_for_moves_alone_and_all_taken_away(
    ok: Ok, broker: Broker, topic: str
) -> None:
    number = number_of(ok)
    change = Change(Place(topic, 1), (number,), (number, 8), 5)
    with ClusterLink(broker.bootstrap_servers) as link:
        snapshot = link.snapshot()

        def values(kind: int, name: str, keys: tuple[str, ...]) -> list[str | None]:
            found = link.settings(kind, [name], keys)[name]
            return [found[key][0] if key in found else None for key in keys]

        before = values(BROKER, str(number), RATES)
        throttle(link, [change], snapshot.brokers, 1234)
        assert values(BROKER, str(number), RATES) == ["1234", "1234"]
        assert values(TOPIC, topic, REPLICAS) == [f"1:{number}", "1:8"]
        unthrottle(link, snapshot)
        assert values(BROKER, str(number), RATES) == before
        assert values(TOPIC, topic, REPLICAS) == ["", ""]


def test_a_roll_needs_to_know_how(run: Run, topic: str, tmp_path: Path) -> None:
    refused = run("cluster", "roll", "--data", str(tmp_path))
    assert "would take no writes while broker" in refused.stderr
    done = run("cluster", "roll", "--allow-pause", "--data", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "say with --command how" in done.stderr


def test_a_command_is_filled_in_for_each_broker_and_its_failure_told() -> None:
    broker = BrokerFacts(3, "10.0.0.3", 9092)
    assert filled_in("r {id} {host}:{port} ${x} {}", broker) == "r 3 10.0.0.3:9092 ${x} {}"
    restart_by_command("test {id} = 3", 60)(broker)
    with pytest.raises(BarnabasError, match="`echo no 3 >&2; exit 7` ended with exit code 7: no 3"):
        restart_by_command("echo no {id} >&2; exit 7", 60)(broker)
    with pytest.raises(BarnabasError, match=r"has not ended within 0\.2 s.* Whether broker 3 was"):
        restart_by_command("exec sleep 30", 0.2)(broker)


def test_a_process_is_asked_to_stop(tmp_path: Path) -> None:
    (tmp_path / "broker-3").mkdir()
    lock = tmp_path / "broker-3" / LOCK
    asleep = _asleep(f"kept = open({str(lock)!r}, 'w')")
    pid_file(tmp_path, 3).write_text(f"{asleep.pid}\n")
    (tmp_path / "broker-3" / "meta.properties").write_text("node.id=3\ncluster.id=ours\n")
    with pytest.raises(BarnabasError, match="belongs to another cluster"):
        restart_by_pid(str(tmp_path), "theirs")(BrokerFacts(3, "host", 1))
    assert asleep.poll() is None
    restart = restart_by_pid(str(tmp_path), "ours")
    restart(BrokerFacts(3, "host", 1))
    assert asleep.wait(30) == -signal.SIGTERM
    with pytest.raises(BarnabasError, match="can not be stopped"):
        restart(BrokerFacts(3, "host", 1))


def test_a_process_that_only_has_the_number_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "broker-3").mkdir()
    (tmp_path / "broker-3" / LOCK).touch()
    (tmp_path / "broker-3" / "meta.properties").write_text("node.id=3\ncluster.id=ours\n")
    stranger = _asleep("")
    pid_file(tmp_path, 3).write_text(f"{stranger.pid}\n")
    with pytest.raises(BarnabasError, match="it is not the broker of that directory"):
        restart_by_pid(str(tmp_path), "ours")(BrokerFacts(3, "host", 1))
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def _asleep(first: str) -> subprocess.Popen[str]:
    """A process that does something first, and says so."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{first}\nprint('ready', flush=True)\nimport time; time.sleep(60)"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_life_outlasts_its_connections() -> None:
    config = {"connections.max.idle.ms": 200}
    with Broker(config=config) as broker, Life(BrokerFacts(0, broker.host, broker.port)) as life:
        for _ in range(4):
            assert not life.is_over()
            time.sleep(0.6)


def test_a_life_ends_when_nobody_listens_or_another_process_does() -> None:
    with Broker() as first:
        facts = BrokerFacts(0, first.host, first.port)
        with Life(facts) as life, Life(facts) as other:
            assert not life.is_over()
            first.stop()
            _until(life.is_over)
            # The other has not looked meanwhile, and what it sees looks as it did before.
            with Broker(port=facts.port):
                _until(other.is_over)
        with pytest.raises(BarnabasError, match="Broker 0 does not answer at"):
            Life(facts)


def test_a_hang_up_is_no_restart(capfd: pytest.CaptureFixture[str]) -> None:
    with Broker(config={"connections.max.idle.ms": 200}) as broker:
        # A command that returns at once, and a restart that never comes.
        arguments = ["cluster", "roll", "--allow-pause", "--command", "true", "--timeout", "3"]
        assert main.run([*arguments, "-b", broker.bootstrap_servers]) == 1
    printed = capfd.readouterr()
    assert "It took more than 3 s to stop broker 0: nothing else was" in printed.err
    assert "restarted: none; broker 0 was told to restart, and is not waited for" in printed.err
    assert printed.out == ""


def test_an_interrupted_roll_names_the_broker_that_is_away(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    ordered = tmp_path / "ordered"
    arguments = ["cluster", "roll", "--allow-pause", "--command", f"touch {ordered}"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE, text=True, env=environment(broker.bootstrap_servers),
    ) as rolling:  # fmt: skip
        _until(ordered.exists)
        rolling.send_signal(signal.SIGINT)
        assert rolling.stderr is not None
        assert "broker 0 was told to restart" in rolling.stderr.read()


def test_events_tell_how_things_are(ok: Ok, topic: str) -> None:
    assert f"topic {topic} is there, with 2 partitions" in ok("events", "--topic", topic)
    found = [json.loads(line) for line in ok("events", "--json").splitlines()]
    assert {"broker-present", "controller-present", "topic-present"} <= {
        each["event"] for each in found
    }


def test_events_are_told_as_they_happen(ok: Ok, broker: Broker, topic: str) -> None:
    arguments = ["events", "--follow", "--json", "--interval", "0.05"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE, text=True, env=environment(broker.bootstrap_servers),
    ) as following:  # fmt: skip
        assert following.stdout is not None
        # It begins when it has looked once, which nobody can see: topics are made until it tells.
        made: list[str] = []
        deadline = time.monotonic() + 60
        while not (made and _waits(following.stdout)):
            made.append(f"{topic}-{len(made)}")
            ok("topic", "create", made[-1], "--partitions", "3")
            assert time.monotonic() < deadline
        told: dict[str, Any] = {}
        while told.get("event") != "topic-created":
            told = json.loads(following.stdout.readline())
        following.terminate()
    assert told["topic"] in made
    assert told["partitions"] == 3


def _waits(pipe: IO[str]) -> bool:
    return bool(select.select([pipe], [], [], 0.3)[0])


@pytest.mark.parametrize(
    "arguments",
    [
        ["events", "--follow", "--interval", "1e30"],
        ["cluster", "roll", "--timeout", "1e30"],
        ["cluster", "balance", "--throttle", "99999999999999999999"],
        ["cluster", "drain", "0", "--throttle", "99999999999999999999"],
    ],
)
def test_a_number_that_is_too_large_is_refused_before_anything_is_done(
    run: Run, arguments: list[str]
) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert f"Invalid value for '{arguments[-2]}'" in done.stderr


def test_a_dry_run_cancels_nothing(run: Run) -> None:
    for command in (["balance"], ["drain", "1"]):
        done = run("cluster", *command, "--cancel", "--dry-run")
        assert done.returncode == 2
        assert "exclude each other" in done.stderr


def test_without_a_controller_moves_are_unknown_and_the_rest_is_told(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_: object) -> None:
        raise NoAnswerError("There is no controller.")

    monkeypatch.setattr(cluster_link, "_ask_moves", nobody)
    with ClusterLink(broker.bootstrap_servers) as link:
        found = gather(link)
        assert found.brokers
        assert not found.as_object()["moves_known"]
        assert "moves are not known" in lines(found)
        with pytest.raises(NoAnswerError, match="no controller just now"):
            link.snapshot(moves_needed=True)


def test_a_look_is_repeated_when_a_move_ends_in_the_middle_of_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = {Place("t", 0): Moving((2,), (1,))}
    lists = [move, {}, {}]
    looks: list[object] = []
    ask = cluster_link.ask_metadata

    def metadata(asked: Any) -> Snapshot:
        looks.append(asked)
        return ask(asked)

    monkeypatch.setattr(cluster_link, "_ask_moves", lambda _: lists.pop(0))
    monkeypatch.setattr(cluster_link, "ask_metadata", metadata)
    with ClusterLink(broker.bootstrap_servers) as link:
        found = link.snapshot()
    assert (found.moving, found.moves_known, len(looks)) == ({}, True, 2)


def test_a_command_that_was_forgotten_does_not_go_on_beside_another(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_lock, "_HEARTBEAT_S", 0.2)
    with OperatorLock(broker.bootstrap_servers, "drain 3") as first:
        first.check()
        # As if its session had ended: it is taken again, since nobody else has it.
        with ClusterLink(broker.bootstrap_servers) as link:
            link.at(link.any(cluster_lock._coordinator), first._leave_at)
        gone = first._member
        _until(lambda: first._member not in ("", gone) and first._holds)
        first.check()
        # And now somebody else is quicker.
        monkeypatch.setattr(cluster_lock, "_HEARTBEAT_S", 60.0)
        time.sleep(0.5)
        with ClusterLink(broker.bootstrap_servers) as link:
            link.at(link.any(cluster_lock._coordinator), first._leave_at)
            with OperatorLock(broker.bootstrap_servers, "balance") as second:
                with pytest.raises(BarnabasError, match="`barnabas cluster balance` is running"):
                    link.at(link.any(cluster_lock._coordinator), first._heartbeat)
                second.check()


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_of_the_preferred_leaders_those_that_are_wanted_are_elected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Place] = []
    monkeypatch.setattr(cluster_moves, "elect_preferred", lambda _, places: asked.extend(places))
    partitions = {number: PartitionFacts(2, 1, (1, 2), (1, 2)) for number in range(3)}
    snapshot = Snapshot(
        cluster_id="", controller=1, brokers={}, topics={"t": TopicFacts("", partitions)}
    )
    link: Any = SimpleNamespace(snapshot=lambda: snapshot)
    mover = Mover(link, None, ProgressLine(), lambda: None)
    mover.elect({Place("t", 1), Place("u", 0)})
    assert asked == [Place("t", 1)]
    mover.elect()
    assert len(asked) == mover.moved.leaders == 4


def test_a_list_of_throttled_replicas_that_is_too_long_is_all_of_the_topic() -> None:
    assert listed(["0:1", "1:2"]) == "0:1,1:2"
    assert listed(["1000:1"] * 6000) == "*"
