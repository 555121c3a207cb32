"""The pipelines in examples/ on the data next to them: what must come of it stands there, too."""

import datetime
import decimal
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession
from tests.chaos.committed import committed

from barnabas.cli.lines import LineRules, messages
from barnabas.client import Producer
from barnabas.spark.pipelines import building, checking, reading
from barnabas.spark.pipelines.definition import TableSink, TopicSink, TopicSource
from barnabas.spark.tables.reading import read
from barnabas.testing import Broker

pytestmark = pytest.mark.timeout(400)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Example:
    """A copy of a folder of examples/, and the topics that it needs."""

    def __init__(self, name: str, folder: Path, servers: str) -> None:
        self.folder = folder / name
        shutil.copytree(EXAMPLES / name, self.folder)
        self.servers = servers
        environment = {"BARNABAS_SERVERS": servers, "ORDERS_FOLDER": str(self.folder)}
        self.pipeline = reading.read(str(self.folder / "pipeline.yaml"), environment)
        self.checkpoints = self.folder / "checkpoints"
        new = [NewTopic(topic, 1) for topic in sorted(self._topics())]
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics(new).values():
            made.result(30)

    def _topics(self) -> Iterator[str]:
        for source in self.pipeline.sources.values():
            if isinstance(source, TopicSource):
                yield from source.topics
                if source.dead_letter is not None:
                    yield source.dead_letter.value
        yield from {
            sink.topic.value for sink in self.pipeline.sinks.values() if isinstance(sink, TopicSink)
        }

    def send(self, topic: str, file: str) -> None:
        """As `barnabas produce --from-json` does."""
        lines = (self.folder / "data" / file).read_bytes().splitlines()
        with Producer(self.servers) as producer:
            for each in messages(lines, LineRules(from_json=True)):
                producer.send(topic, each.value, key=each.key, partition=0)

    def run_once(self, spark: SparkSession) -> None:
        """Every query to the end of what is there."""
        for query in building.build(spark, self.pipeline):
            started = query.start(str(self.checkpoints / query.name), 0, True, None)
            started.awaitTermination()

    def documents(self, topic: str) -> list[dict[str, Any]]:
        """The values of a topic."""
        return [json.loads(each.value() or b"") for each in committed(self.servers, topic, 1)]

    def reasons(self, topic: str) -> list[str]:
        """Why letters are dead."""
        found = []
        for letter in committed(self.servers, topic, 1):
            headers: dict[str, Any] = dict(letter.headers() or [])
            found.append(headers["barnabas.reason"].decode())
        return found

    def expected(self, name: str) -> list[dict[str, Any]]:
        """As the file next to it says."""
        lines = (self.folder / "expected" / f"{name}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def by_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def test_clicks_become_sessions(spark: SparkSession, tmp_path: Path, servers: str) -> None:
    example = Example("sessions", tmp_path, servers)
    example.send("clicks", "clicks.jsonl")
    example.run_once(spark)
    assert by_text(example.documents("sessions")) == by_text(example.expected("sessions"))
    assert len(example.reasons("clicks-dead")) == 2


def test_changes_become_a_table(spark: SparkSession, tmp_path: Path, servers: str) -> None:
    example = Example("changes", tmp_path, servers)
    example.send("account-changes", "account-changes.jsonl")
    example.run_once(spark)
    sink = example.pipeline.sinks["accounts"]
    assert isinstance(sink, TableSink)
    rows = read(spark, str(example.folder / sink.path.value)).select("id", "owner", "balance")
    found = [
        {key: str(value) if isinstance(value, decimal.Decimal) else value for key, value in row}
        for row in (each.asDict().items() for each in rows.collect())
    ]
    assert by_text(found) == by_text(example.expected("accounts"))
    assert len(example.reasons("account-changes-dead")) == 1


def test_fraud_is_found_and_late_payments_are_not_judged(
    spark: SparkSession, tmp_path: Path, servers: str
) -> None:
    example = Example("fraud", tmp_path, servers)
    example.send("payments", "payments.jsonl")
    example.send("logins", "logins.jsonl")
    example.run_once(spark)
    example.send("payments", "payments-late.jsonl")
    example.run_once(spark)
    assert by_text(example.documents("alerts")) == by_text(example.expected("alerts"))
    assert len(example.reasons("payments-dead")) == 1


def test_orders_are_summed_by_minute_and_country(
    spark: SparkSession, tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline of `make demo`, on a small morning."""
    monkeypatch.syspath_prepend(str(EXAMPLES.parent))
    from examples.orders import events
    from examples.orders.demo import computed

    example = Example("orders", tmp_path, servers)
    assert checking.check(example.pipeline, spark, offline=False) == []
    sent = [order for minute in events.orders(3, 40) for order in minute]
    with Producer(servers) as producer:
        for name, country in events.customers().items():
            producer.send("customers", json.dumps({"id": name, "country": country}), key=name)
        for order in (*sent, events.closing()):
            producer.send("orders", order.value, key=order.key)
    example.run_once(spark)
    found = {
        (
            datetime.datetime.fromisoformat(each["minute"]).astimezone(datetime.UTC),
            each["country"],
        ): decimal.Decimal(str(each["total"]))
        for each in example.documents("revenue")
    }
    assert found == computed(sent)
    poison = [order for order in sent if order.country is None]
    assert len(example.reasons("orders-dead")) == len(poison)
