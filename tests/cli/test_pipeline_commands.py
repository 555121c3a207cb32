"""`barnabas pipeline`: run, watched, killed, stopped, begun anew; with a real broker and Spark."""

import json
import os
import queue
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from tests.cli.conftest import COMMAND, Done, Run, environment
from typer.testing import CliRunner

from barnabas.cli.app import app
from barnabas.testing import Broker

PATIENCE_S = 240.0
"""For Java on a machine that is busy with other things."""

FILE = """\
pipeline: {name}
servers: {servers}
trigger: 100 milliseconds
settings: {{spark.sql.shuffle.partitions: 1}}
functions:
  stumble: {{python: "{name}_rules:stumble"}}
sources:
  words: {{topic: {name}-in, format: text}}
steps:
  upper: SELECT stumble(value) AS value FROM words
sinks:
  copy: {{from: upper, topic: {name}-out, format: text}}
  kept: {{from: words, table: tables/words}}
"""
RULES = """\
import os

def stumble(word: str) -> str:
    if os.path.exists(os.path.join(os.path.dirname(__file__), "stumbles")):
        raise RuntimeError("it stumbled")
    return word.upper()
"""
SLOW = """\
import pathlib, sys, time

if "{module}" in sys.orig_argv:
    pathlib.Path(__file__).with_name("up").touch()
    time.sleep(1)
"""


class World:
    """A pipeline in a folder of its own, with topics of its own."""

    def __init__(self, folder: Path, servers: str) -> None:
        self.name = f"p{uuid.uuid4().hex[:8]}"
        self.file = str(folder / "words.yaml")
        self.folder = folder
        self.servers = servers
        Path(self.file).write_text(FILE.format(name=self.name, servers=servers))
        (folder / f"{self.name}_rules.py").write_text(RULES)
        for topic in ("in", "out"):
            made = self.barnabas("topic", "create", f"{self.name}-{topic}", "--partitions", "2")
            assert made.returncode == 0, made

    def barnabas(self, *arguments: str) -> Done:
        return subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S,
            env=environment(self.servers), check=False,
        )  # fmt: skip

    def feed(self, *words: str) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for word in words:
            producer.produce(f"{self.name}-in", word, key=word)
        assert producer.flush(60) == 0

    def out(self) -> list[str]:
        """Everything that is committed in the topic it writes."""
        consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "judge", "enable.partition.eof": True,
             "enable.auto.commit": False}
        )  # fmt: skip
        topic = f"{self.name}-out"
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(2)])
        found, ended = [], 0
        while ended < 2:
            message = consumer.poll(60)
            assert message is not None
            problem = message.error()
            if problem is None:
                found.append((message.value() or b"").decode())
            else:
                assert problem.code() == KafkaError._PARTITION_EOF
                ended += 1
        consumer.close()
        return sorted(found)

    def table_rows(self) -> int:
        """As many as the table's newest version has, read by somebody else's program."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return int(DeltaTable(self.folder / "tables" / "words").count())
        except TableNotFoundError:
            return 0

    def status(self) -> dict[str, Any]:
        done = self.barnabas("pipeline", "status", self.file, "--json")
        assert done.returncode == 0, done
        return dict(json.loads(done.stdout))

    def query(self, name: str) -> dict[str, Any]:
        return dict({each["name"]: each for each in self.status()["queries"]}[name])


@pytest.fixture
def world(tmp_path: Path, broker: Broker) -> World:
    return World(tmp_path, broker.bootstrap_servers)


class Running:
    """`pipeline run --json` in the background, and what it said."""

    def __init__(self, world: World, *more: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "pipeline", "run", world.file, "--json", "--master", "local[2]", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.said: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._events.put(json.loads(line))
        self._events.put({"event": "end"})

    def wait_for(self, event: str, **more: object) -> dict[str, Any]:
        while True:
            found = self._events.get(timeout=PATIENCE_S)
            self.said.append(found)
            if found["event"] == event and more.items() <= found.items():
                return found
            assert found["event"] != "end", (self.said, self.process.communicate(timeout=60))

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def story(self) -> str:
        """All it has said, for who wants to know why a test has failed."""
        while not self._events.empty():
            self.said.append(self._events.get())
        return "\n".join(json.dumps(each) for each in self.said if each["event"] != "progress")


@contextmanager
def running(world: World, *more: str) -> Iterator[Running]:
    started = Running(world, *more)
    try:
        yield started
    except BaseException as error:
        log = world.folder / ".barnabas" / world.name / "spark.log"
        tail = log.read_text(errors="replace")[-20_000:] if log.exists() else ""
        error.add_note(f"{started.story()}\n{tail}")
        raise
    finally:
        started.process.terminate()
        started.process.wait(PATIENCE_S)


def eventually(asked: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := asked()) != wanted:
        assert time.monotonic() < deadline, f"{found} instead of {wanted}"
        time.sleep(0.2)


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.timeout(6 * PATIENCE_S)
def test_it_runs_outlives_its_driver_stops_and_is_run_once_anew(world: World) -> None:
    (world.folder / "stumbles").touch()
    world.feed("a", "b", "c")
    with running(world) as run:
        driver = run.wait_for("spark", master="local[2]")["pid"]
        # On a busy machine it may die of other things before.
        while "it stumbled" not in (died := run.wait_for("died", query="copy"))["sentence"]:
            pass
        (world.folder / "stumbles").unlink()
        assert "words.yaml:12: sink copy: " in died["sentence"]
        run.wait_for("started", query="copy")
        eventually(world.out, ["A", "B", "C"])
        eventually(world.table_rows, 3)
        refuse_a_second(world, run)
        watch(world, run, driver)
        os.kill(driver, signal.SIGKILL)
        again = run.wait_for("spark")
        assert again["pid"] != driver
        world.feed("d")
        eventually(world.out, ["A", "B", "C", "D"])
        eventually(world.table_rows, 4)
        assert world.status()["drivers"] == 2
        assert run.end(signal.SIGINT) == 130
    world.feed("e", "f")
    after = world.status()
    assert (after["running"], after["state"], after["driver_pid"]) == (False, "stopped", None)
    assert {each["state"] for each in after["queries"]} == {"stopped"}
    assert {each["lag"] for each in after["queries"]} == {2}
    assert all(each["lag_seconds"] > 0 for each in after["queries"])
    shown = world.barnabas("pipeline", "status", world.file).stdout
    assert f"{world.name}  stopped" in shown
    assert world.out() == ["A", "B", "C", "D"]
    run_once_anew(world)


def run_once_anew(world: World) -> None:
    """One sink goes on where it was stopped, and the other begins again."""
    refused = world.barnabas("pipeline", "run", world.file, "--once", "--reset", "kept")
    assert refused.returncode == 1
    assert "words.yaml:13: --reset kept would write every row" in refused.stderr
    with running(world, "--once", "--reset", "copy") as run:
        assert "copy begins anew" in run.wait_for("note")["sentence"]
        run.wait_for("done", query="copy")
        assert run.process.wait(PATIENCE_S) == 0
    assert world.out() == sorted("ABCD" + "ABCDEF")
    assert world.table_rows() == 6
    assert world.status()["state"] == "done"


def refuse_a_second(world: World, run: Running) -> None:
    second = world.barnabas("pipeline", "run", world.file)
    assert second.returncode == 1
    pid = run.process.pid
    assert f"{world.name} is running already (process {pid} since 20" in second.stderr


def watch(world: World, run: Running, driver: int) -> None:
    eventually(lambda: world.query("copy")["lag"], 0)
    eventually(lambda: world.query("copy")["output_total"], 3)
    eventually(lambda: world.query("kept")["output_total"], 3)
    status = world.status()
    assert (status["running"], status["state"], status["pid"]) == (True, "running", run.process.pid)
    assert (status["driver_pid"], status["drivers"]) == (driver, 1)
    copy = {each["name"]: each for each in status["queries"]}["copy"]
    assert (copy["state"], copy["lag_seconds"]) == ("running", 0)
    assert copy["restarts"] >= 1
    assert (copy["input_total"], copy["batch"]) == (3, 0)
    assert copy["batch_ms"] > 0
    assert [each["description"] for each in copy["sources"]] == [f"{world.name}-in"]
    (listed,) = json.loads(world.barnabas("pipeline", "list", str(world.folder), "--json").stdout)
    assert (listed["pipeline"], listed["sinks"]) == (world.name, ["copy", "kept"])
    assert (listed["running"], listed["since"], listed["lag"]) == (True, status["since"], 0)
    described = world.barnabas("group", "describe", f"{world.name}.copy", "--json").stdout
    assert json.loads(described)[0]["lag"] == 0


@pytest.mark.timeout(3 * PATIENCE_S)
def test_what_no_restart_can_mend_ends_all_of_it(world: World) -> None:
    text = (
        Path(world.file)
        .read_text()
        .replace("format: text}\nsteps", 'format: json, schema: "n BIGINT"}\nsteps')
    )
    text = text.replace("stumble(value)", "stumble(CAST(n AS STRING))")
    Path(world.file).write_text(text)
    world.feed("no json")
    done = world.barnabas("pipeline", "run", world.file, "--master", "local[2]")
    assert done.returncode == 78, done
    said = done.stderr.strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"barnabas: {world.file}:1")
    assert f"{world.name}-in" in said[0]
    assert "Traceback" not in done.stdout
    assert world.out() == []
    status = world.status()
    assert (status["state"], status["sentence"]) == ("failed", said[0].removeprefix("barnabas: "))


@pytest.fixture
def waiting(world: World) -> World:
    """Nobody listens there: the driver waits for its broker, and needs no Java for that."""
    Path(world.file).write_text(FILE.format(name=world.name, servers="127.0.0.1:9"))
    return world


def test_ctrl_c_is_130_also_while_it_waits_for_its_broker(waiting: World) -> None:
    with running(waiting) as run:
        run.wait_for("note")
        assert run.end(signal.SIGINT) == 130


@pytest.mark.parametrize(("command", "module"), [("run", "job"), ("check", "check_job")])
def test_ctrl_c_says_nothing_while_the_driver_still_imports(
    waiting: World, command: str, module: str
) -> None:
    here = waiting.folder
    (here / "sitecustomize.py").write_text(SLOW.format(module=f"barnabas.spark.pipelines.{module}"))
    with subprocess.Popen(
        [*COMMAND, "pipeline", command, waiting.file], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env=environment(PYTHONPATH=str(here)),
    ) as process:  # fmt: skip
        eventually((here / "up").exists, True)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (130, "")


def test_nothing_outlives_a_run_that_is_killed(waiting: World) -> None:
    world = waiting
    with running(world) as run:
        said = run.wait_for("note")["sentence"]
        assert "127.0.0.1:9" in said
        assert said.endswith("It is tried again in 1 s.")
        driver = json.loads((world.folder / ".barnabas" / world.name / "status.json").read_text())
        assert is_there(driver["pid"])
        run.process.kill()
        run.process.wait(PATIENCE_S)
        eventually(lambda: is_there(driver["pid"]), False)
    status = world.status()
    assert (status["running"], status["state"]) == (False, "killed")
    assert status["broker"] == "No broker answers at 127.0.0.1:9."


@pytest.mark.timeout(3 * PATIENCE_S)
def test_a_check_names_every_place(world: World) -> None:
    bad = world.folder / "bad.yaml"
    bad.write_text(Path(world.file).read_text().replace("(value)", "(valu)").replace("-out", "-ou"))
    broken = world.folder / "broken.yaml"
    broken.write_text("pipeline: x\nservers: a:1\nsinks: 3\n")
    done = world.barnabas("pipeline", "check", str(bad), str(broken), world.file)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert any(line.startswith(f"{bad}:10: ") and "valu" in line for line in lines)
    assert any(line.startswith(f"{bad}:12: ") and f"{world.name}-ou" in line for line in lines)
    assert any(line.startswith(f"{broken}:3: ") for line in lines)
    assert lines[-1] == f"{world.file}: fine (1 source, 1 step, 2 sinks)"


def test_a_list_shows_what_is_broken(run: Run, tmp_path: Path) -> None:
    (tmp_path / "deep" / ".hidden").mkdir(parents=True)
    (tmp_path / "other.yaml").write_text("something: else\n")
    (tmp_path / "deep" / ".hidden" / "x.yaml").write_text("pipeline: hidden\n")
    text = FILE.format(name="bad", servers="127.0.0.1:9").replace("topic: bad-in", "topik: bad-in")
    (tmp_path / "deep" / "bad.yml").write_text(text)
    done = run("pipeline", "list", str(tmp_path), "--json")
    (bad,) = json.loads(done.stdout)
    assert (bad["file"], bad["state"]) == (str(tmp_path / "deep" / "bad.yml"), "broken")
    assert "did you mean topic?" in bad["problem"]
    shown = run("pipeline", "list", str(tmp_path))
    assert "broken" in shown.stdout
    assert "did you mean topic?" in shown.stderr
    assert run("pipeline", "list", str(tmp_path / "nowhere")).returncode == 1


def test_a_list_tells_a_variable_that_is_not_set_from_a_mistake(run: Run, tmp_path: Path) -> None:
    text = FILE.format(name="away", servers="${NOWHERE_SERVERS}")
    (tmp_path / "away.yaml").write_text(text)
    worse = text.replace("topic: away-in", "topik: away-in")
    (tmp_path / "worse.yaml").write_text(worse)
    done = run("pipeline", "list", str(tmp_path), "--json")
    away, both = json.loads(done.stdout)
    assert (away["state"], both["state"]) == ("unset", "broken")
    file = tmp_path / "away.yaml"
    assert away["problem"].startswith(f"{file}:2: variable NOWHERE_SERVERS is not set: ")
    assert both["problem"].endswith(
        f"`barnabas pipeline check {tmp_path / 'worse.yaml'}` tells all of them.)"
    )
    shown = run("pipeline", "list", str(tmp_path))
    assert "unset" in shown.stdout
    assert shown.stderr.splitlines() == [away["problem"], both["problem"]]


@pytest.mark.parametrize("command", ["run", "check", "status", "list"])
def test_help_teaches(command: str) -> None:
    output = CliRunner().invoke(app, ["pipeline", command, "--help"]).output
    assert "Examples:" in output
    assert f"  barnabas pipeline {command}" in output


def test_the_file_in_the_help_is_a_pipeline(run: Run, tmp_path: Path) -> None:
    output = CliRunner().invoke(app, ["pipeline", "run", "--help"]).output
    text = output.partition("A complete file:\n")[2]
    file = tmp_path / "orders.yaml"
    file.write_text("\n".join(line[4:] for line in text.splitlines()))
    done = run("pipeline", "status", str(file), "--json")
    assert done.returncode == 0, done
    names = [each["name"] for each in json.loads(done.stdout)["queries"]]
    assert names == ["totals", "all_orders", "dead-letter-orders"]
