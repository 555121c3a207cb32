"""examples/spark-pipelines, run twice by Spark's own command against a real broker."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.spark.sink.written import read_all

from barnabas.testing import Broker

_EXAMPLE = Path(__file__).parents[2] / "examples" / "spark-pipelines"
_COMMAND = Path(sys.executable).with_name("spark-pipelines")
_RUN_SECONDS_MAX = 800


def _project(folder: Path) -> Path:
    """A copy of the example whose checkpoints lie beside it."""
    project = folder / "project"
    shutil.copytree(_EXAMPLE, project, ignore=shutil.ignore_patterns("spark-warehouse", "*_db"))
    spec = project / "spark-pipeline.yml"
    storage = "file:///tmp/orders-pipeline"
    assert spec.read_text().count(storage) == 1
    spec.write_text(spec.read_text().replace(storage, (folder / "storage").as_uri()))
    return project


def _options() -> list[str]:
    """Those that the README gives, so that what stands there is what is tried."""
    lines = (_EXAMPLE / "README.md").read_text().replace("\\\n", " ").splitlines()
    (command,) = [line for line in lines if line.startswith("$ spark-pipelines run")]
    return command.replace("'", "").split()[2:]


def _run(project: Path, broker: Broker) -> None:
    environment = os.environ | {
        "BARNABAS_SERVERS": broker.bootstrap_servers,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    running = subprocess.Popen(
        [_COMMAND, *_options(), "--conf", "spark.ui.enabled=false"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = running.communicate(timeout=_RUN_SECONDS_MAX)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, told[-5000:]
    assert "Run is COMPLETED" in told


def _produce(broker: Broker, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in numbers:
        order = {"id": number, "country": "CZ" if number % 2 else "PL", "amount": number * 20.0}
        producer.produce("orders", json.dumps(order), partition=number % 3)
    assert producer.flush(60) == 0


def _table(project: Path) -> list[int]:
    """What Spark has committed to the table: files of runs that failed are not listed there."""
    folder = project / "spark-warehouse" / "orders"
    found: list[int] = []
    for batch in (folder / "_spark_metadata").glob("[0-9]*"):
        for line in batch.read_text().splitlines()[1:]:
            file = json.loads(line)["path"].rpartition("/")[2]
            found += pq.read_table(folder / file)["id"].to_pylist()
    return sorted(found)


def _totals(project: Path) -> dict[str, float]:
    rows = pq.read_table(project / "spark-warehouse" / "by_country").to_pylist()
    return {row["country"]: row["total"] for row in rows}


def _large(broker: Broker) -> list[tuple[bytes | None, int]]:
    records = read_all(broker, "large-orders")
    return sorted((record.key, json.loads(record.value or b"")["id"]) for record in records)


@pytest.mark.clients
@pytest.mark.timeout(2 * _RUN_SECONDS_MAX + 100)
def test_the_second_run_adds_what_is_new(broker: Broker, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    topics = [NewTopic("orders", 3), NewTopic("large-orders", 2)]
    for created in admin.create_topics(topics).values():
        created.result()
    project = _project(tmp_path)
    for begin, end in ((0, 8), (8, 12)):
        _produce(broker, range(begin, end))
        _run(project, broker)
        assert _table(project) == list(range(end))
        assert _large(broker) == [
            *((b"CZ", number) for number in range(5, end, 2)),
            *((b"PL", number) for number in range(6, end, 2)),
        ]
        assert _totals(project) == {
            "CZ": sum(range(1, end, 2)) * 20.0,
            "PL": sum(range(0, end, 2)) * 20.0,
        }
