"""`barnabas spark-cluster` and `barnabas spark-run`, with a real cluster and without one."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.cli.conftest import COMMAND, WAIT_S, Run, environment
from typer.testing import CliRunner

from barnabas.cli.app import app
from barnabas.testing import Broker

HERE = Path(__file__)
PATIENCE_S = 240.0
"""For Java on a machine that is busy with other things."""


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def event(process: subprocess.Popen[str]) -> dict[str, Any]:
    return dict(json.loads(line(process)))


def wait_for(folder: Path, pattern: str, count: int, job: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(list(folder.glob(pattern))) < count:
        assert job.poll() is None, "the job ended early"
        assert time.monotonic() < deadline, f"no {count} {pattern} in {folder}"
        time.sleep(0.05)


# Each task says that it runs, and waits for `go`: so the kill comes while both workers are at it.
JOB = """
import os, sys, time
from barnabas.spark import keep_running, session, to_topic

folder, servers = sys.argv[1:]

def slowly(batches):
    from pyspark import TaskContext
    open(f"{folder}/started-{TaskContext.get().partitionId()}", "w").close()
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.05)
    yield from batches

spark = session("killed")
options = {"kafka.bootstrap.servers": servers, "subscribe": "numbers", "minPartitions": "4"}
rows = spark.readStream.format("barnabas").options(**options)
rows = rows.option("startingOffsets", "earliest").load().select("key", "value")
worked = rows.mapInArrow(slowly, rows.schema).selectExpr("key", "concat('<', value, '>') AS value")
sink = {
    "kafka.bootstrap.servers": servers, "topic": "worked", "delivery": "exactly-once",
    "checkpointLocation": f"{folder}/checkpoint",
}

def start():
    writing = to_topic(worked, "worked", servers=servers).writeStream.format("barnabas")
    return writing.options(**sink).trigger(availableNow=True).start()

keep_running(start)
print("done on", spark.sparkContext.master, flush=True)
"""


def make_numbers(servers: str) -> list[bytes]:
    """A topic to read and one to write to; what the second shall hold in the end."""
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic("numbers", 4), NewTopic("worked", 4)]).values():
        made.result(WAIT_S)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(1000):
        producer.produce("numbers", str(number), key=str(number))
    assert producer.flush(WAIT_S) == 0
    return sorted(f"<{number}>".encode() for number in range(1000))


def committed(servers: str, topic: str, partitions: int) -> list[bytes]:
    """Everything that somebody else's client reads there of what is committed."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "judge", "enable.partition.eof": True,
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        for message in consumer.consume(1000, WAIT_S):
            problem = message.error()
            if problem is None:
                found.append(message.value() or b"")
            else:
                assert problem.code() == KafkaError._PARTITION_EOF
                ended += 1
    consumer.close()
    return found


@pytest.fixture
def another_master() -> Iterator[None]:
    """Somebody holds the port that every Spark master wants for submissions by HTTP."""
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(socket.create_server(("127.0.0.1", 6066)))
        yield


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.usefixtures("another_master")
def test_a_job_outlives_a_worker_and_nothing_outlives_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    with Broker() as broker:
        servers = broker.bootstrap_servers
        wanted = make_numbers(servers)
        outlive_a_worker(tmp_path, servers)
        assert sorted(committed(servers, "worked", 4)) == wanted


def outlive_a_worker(tmp_path: Path, servers: str) -> None:
    small = ("--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false")
    sizes = ("--workers", "2", "--memory", "512m", "--port", "0", "--ui-port", "0")
    with started("spark-cluster", *sizes, "--dir", str(tmp_path / "c"), "--json") as cluster:
        ready = event(cluster)
        assert ready["event"] == "ready"
        assert [worker["worker"] for worker in ready["workers"]] == [1, 2]
        file = str(tmp_path / "job.py")
        job = ("--master", ready["master"], *small, file, str(tmp_path), servers)
        with started("spark-run", *job) as running:
            wait_for(tmp_path, "started-*", 2, running)
            os.killpg(ready["workers"][0]["pid"], signal.SIGKILL)
            assert event(cluster) == {"event": "worker-died", "worker": 1}
            (tmp_path / "go").touch()
            assert line(running) == f"done on {ready['master']}"
            assert running.wait(PATIENCE_S) == 0
        assert event(cluster) == {"event": "worker-back", "worker": 1}
        cluster.terminate()
        assert cluster.wait(PATIENCE_S) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(ready["workers"][1]["pid"], 0)
    assert (tmp_path / "c" / "master.log").exists()


def waiting_job(folder: Path, more: str = "") -> str:
    file = folder / "waiting.py"
    file.write_text(f"import time\n{more}\nprint('up', flush=True)\ntime.sleep(600)\n")
    return str(file)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_are_handed_on_and_end_it(tmp_path: Path, number: int, code: int) -> None:
    with started("spark-run", "--restarts", "-1", waiting_job(tmp_path)) as running:
        assert line(running) == "up"
        running.send_signal(number)
        assert running.wait(WAIT_S) == code


def test_a_job_that_stops_cleanly_ends_with_0(tmp_path: Path) -> None:
    more = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"
    with started("spark-run", "--restarts", "-1", waiting_job(tmp_path, more)) as running:
        assert line(running) == "up"
        running.terminate()
        assert running.wait(WAIT_S) == 0


def test_a_driver_ends_with_the_command_that_is_killed(tmp_path: Path) -> None:
    with started("spark-run", waiting_job(tmp_path)) as running:
        assert line(running) == "up"
        running.kill()
        # The pipe ends when the last process that holds it has, the driver included.
        assert running.communicate(timeout=WAIT_S)[0] == ""


def test_exit_codes_and_restarts_are_told(run: Run, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        textwrap.dedent(
            """
            import os, sys
            first = not os.path.exists(sys.argv[1])
            open(sys.argv[1], "w").close()
            sys.exit(7 if first else 3)
            """
        )
    )
    done = run("spark-run", "--restarts", "1", str(job), str(tmp_path / "seen"))
    assert done.returncode == 3
    assert done.stderr == "The driver ended with exit code 7; it is started again in 1 s.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spark-run", "nothing.py"], "There is no job file nothing.py."),
        (["spark-run", "--conf", "master=local", "x.py"], "--conf master=local: write it as"),
        (["spark-run", "--conf", "spark.speculation=true", str(HERE)], "write rows twice"),
        (["spark-cluster", "--host", "0.0.0.0"], "--allow-insecure"),
        (["spark-cluster", "--memory", "1x"], "512m or 2g"),
    ],
)
def test_one_sentence_says_what_to_do(run: Run, arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("barnabas: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_taken_port_and_a_missing_java(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = run("spark-cluster", "--port", port, "--dir", str(tmp_path / "never"))
    assert done.returncode == 1
    assert f"Port {port} of 127.0.0.1 is in use" in done.stderr
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for arguments in (["spark-cluster"], ["spark-run", str(HERE)]):
        done = run(*arguments)
        assert done.returncode == 1
        assert "JAVA_HOME" in done.stderr
    (finding,) = [
        each
        for each in json.loads(run("doctor", "--json").stdout)
        if each["check"] == "spark"
    ]  # fmt: skip
    assert finding["verdict"] == "warning"
    assert "JAVA_HOME" in finding["found"]


def test_the_line_for_spark_submit(run: Run) -> None:
    done = run("spark-run", "--show", "--master", "yarn", "--quick-checkpoints", "job.py", "--x")
    assert done.returncode == 0
    assert "spark-submit --master yarn" in done.stdout
    assert "checkpointFileManagerClass" in done.stdout
    assert done.stdout.endswith(" job.py --x\n")


@pytest.mark.parametrize("command", ["spark-run", "spark-cluster"])
def test_help_teaches(command: str) -> None:
    output = CliRunner().invoke(app, [command, "--help"]).output
    assert "Examples:" in output
    assert f"  barnabas {command}" in output


def test_other_commands_do_not_load_any_of_it() -> None:
    asked = "import sys, barnabas.cli.app; print('barnabas.spark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_signals_are_heard_as_before_once_the_command_has_ended(run: Run) -> None:
    before = signal.getsignal(signal.SIGINT)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run("spark-cluster", "--port", str(taken.getsockname()[1])).returncode == 1
    assert signal.getsignal(signal.SIGINT) is before
