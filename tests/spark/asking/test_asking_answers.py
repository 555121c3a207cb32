"""Questions about topics and archives, answered by Spark from a real broker and real files."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.asking.asking_world import (
    BEGAN_MS,
    archive_up_to,
    ask,
    asker,
    delete_before,
    make_topic,
    write,
)
from tests.spark.source_read.reading_world import new_topic

from barnabas.spark.archives.layout import ArchiveError
from barnabas.spark.asking import asker as asking
from barnabas.spark.asking import reading
from barnabas.spark.asking.pinning import Pinned
from barnabas.spark.asking.troubles import AskingError
from barnabas.spark.errors import UnknownTopicError
from barnabas.testing import Broker

# Spark's own start is part of whichever test comes first.
pytestmark = pytest.mark.timeout(300)

BOTH = "SELECT count(*), count(DISTINCT partition, offset), min(offset), max(offset) FROM `{}`"


@pytest.fixture(scope="module")
def orders(shared_broker: Broker) -> str:
    """Three orders, a record without a value, one of other bytes, and one that is no JSON."""
    servers = shared_broker.bootstrap_servers
    topic = new_topic(servers, 2)
    documents = [
        {"id": n, "amount": n / 4, "offset": -n, "customer": {"name": f"Ünal {n}"}}
        for n in range(3)
    ]
    values = [json.dumps(each).encode() for each in documents]
    write(servers, topic, [*values, None, b"\xff\xfe", b"no JSON"])
    write(servers, topic, [b"{}"], partition=1)
    return topic


@pytest.fixture
def servers(shared_broker: Broker) -> str:
    return shared_broker.bootstrap_servers


def test_the_columns_of_a_topic(spark: SparkSession, servers: str, orders: str) -> None:
    asks = asker(spark, servers)
    rows = ask(asks, f"SELECT * FROM `{orders}` WHERE partition = 0 ORDER BY offset")
    value = '{"id": 1, "amount": 0.25, "offset": -1, "customer": {"name": "\\u00dcnal 1"}}'
    assert rows[1] == (
        0,
        1,
        "2023-11-14T22:13:21.000000Z",
        "1",
        value,
        '{"amount":0.25,"customer":{"name":"Ünal 1"},"id":1,"offset":-1}',
        None,
        b"1",
        value.encode(),
        "CreateTime",
    )
    # Neither a tombstone nor what is no UTF-8 has a text; only the bytes tell them apart.
    assert [row[4] for row in rows[3:]] == [None, None, "no JSON"]
    assert [row[5] for row in rows[3:]] == [None, None, None]
    assert [row[8] for row in rows[3:]] == [None, b"\xff\xfe", b"no JSON"]
    names = [row[0] for row in ask(asks, f"DESCRIBE `{orders}`")]
    assert names == [column.name for column in asks.ask(f"TABLE `{orders}`").columns]
    dear = f"SELECT doc:customer.name::string FROM `{orders}` WHERE doc:amount::double > 0.3"
    assert ask(asks, dear) == [("Ünal 2",)]


def test_fields_of_the_json_as_columns(spark: SparkSession, servers: str, orders: str) -> None:
    asks = asker(spark, servers, schemas={orders: "id BIGINT, offset INT"})
    query = f"SELECT id, offset, record_offset, key FROM `{orders}` WHERE id > 0 ORDER BY id"
    assert ask(asks, query) == [(1, -1, 1, "1"), (2, -2, 2, "2")]
    assert [each.name for each in asks.ask(f"TABLE `{orders}`").columns][:3] == [
        "id",
        "offset",
        "partition",
    ]


def test_only_what_is_asked_for_is_read(spark: SparkSession, servers: str, orders: str) -> None:
    asks = asker(spark, servers)

    def read(query: str) -> list[str]:
        ((plan,),) = ask(asks, f"EXPLAIN {query}")
        scans = [line.split("[")[1] for line in plan.splitlines() if "BatchScan barnabas" in line]
        return sorted(
            {name.split("#")[0].strip() for scan in scans for name in scan.split("]")[0].split(",")}
        )

    assert read(f"SELECT count(*) FROM `{orders}`") == ["timestampType"]
    assert read(f"SELECT doc FROM (SELECT * FROM `{orders}`)") == ["value"]
    assert read(f"SELECT key FROM `{orders}` WHERE partition = 1") == ["key", "partition"]
    union = f"SELECT key FROM `{orders}` UNION ALL SELECT timestamp_type FROM `{orders}`"
    assert read(union) == ["key", "timestampType"]
    deep = (
        f"WITH a AS (TABLE `{orders}`) SELECT key FROM a WHERE offset = (SELECT max(offset) FROM a)"
    )
    assert read(deep) == ["key", "offset"]
    assert ask(asks, deep.replace("key FROM a", "value FROM a")) == [("no JSON",)]


class Meddler:
    """Does something real between a plan and its reading, as often as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *deeds: object) -> None:
        self.pinned: list[Pinned] = []
        left: Iterator[object] = iter(deeds)
        frame = reading.pinned_frame

        def meddled(*arguments: object) -> object:
            pinned = arguments[1]
            assert isinstance(pinned, Pinned)
            self.pinned.append(pinned)
            deed = next(left, None)
            if callable(deed):
                deed()
            return frame(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(asking, "pinned_frame", meddled)


def test_each_offset_once_while_it_is_archived_and_deleted(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 2)
    write(servers, topic, [b"x"] * 40)
    write(servers, topic, [b"y"] * 7, partition=1)
    archive_up_to(servers, topic, tmp_path, {0: 40, 1: 7})
    write(servers, topic, [b"x"] * 20)
    delete_before(servers, topic, 0, 10)
    told: list[str] = []
    asks = asker(spark, servers, archives=[tmp_path], told=told)
    assert ask(asks, BOTH.format(topic)) == [(67, 67, 0, 59)]
    assert ask(asker(spark, servers), BOTH.format(topic)) == [(57, 57, 0, 59)]
    assert ask(asker(spark, "127.0.0.1:1"), BOTH.format(tmp_path)) == [(47, 47, 0, 39)]

    def archived_and_deleted() -> None:
        archive_up_to(servers, topic, tmp_path, {0: 50})
        delete_before(servers, topic, 0, 50)

    meddler = Meddler(monkeypatch, archived_and_deleted)
    assert ask(asks, BOTH.format(topic)) == [(67, 67, 0, 59)]
    assert [each.after for each in meddler.pinned] == [{0: (40, 60)}, {0: (50, 60)}]
    assert told == []

    delete_before(servers, topic, 0, 55)
    assert ask(asks, BOTH.format(topic)) == [(62, 62, 0, 59)]
    assert [note.split(" are")[0] for note in told] == [f"Offsets 50 to 54 of {topic}-0"]


def test_filters_reach_the_broker_and_the_files(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 2)
    write(servers, topic, [b"x"] * 60)
    write(servers, topic, [b"y"] * 5, partition=1)
    archive_up_to(servers, topic, tmp_path, {0: 20})
    asks = asker(spark, servers, archives=[tmp_path])
    moment = BEGAN_MS // 1000 + 50
    ((plan,),) = ask(asks, f"EXPLAIN SELECT key FROM `{topic}` WHERE offset > 50 AND partition = 0")
    pushed = plan[plan.index("PushedFilters") :].split("\n")[0]
    assert "GreaterThan(offset,50)" in pushed
    assert "EqualTo(partition,0)" in pushed

    # What is read of the broker is gone when it is read, but for what the filter leaves: had it
    # not got there, the query would have been planned again.
    for number, where in enumerate(
        ("offset >= 55 AND partition = 0", f"timestamp >= timestamp_seconds({moment})")
    ):
        begin = 25 + 10 * number
        meddler = Meddler(monkeypatch, lambda at=begin: delete_before(servers, topic, 0, at))
        rows = ask(asks, f"SELECT min(offset), count(*) FROM `{topic}` WHERE {where}")
        assert rows == ([(55, 5)], [(50, 10)])[number]
        assert len(meddler.pinned) == 1


def test_a_loss_that_no_plan_gets_over(
    spark: SparkSession, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers)
    write(servers, topic, [b"x"] * 60)
    deeds = [lambda at=10 * n: delete_before(servers, topic, 0, at) for n in range(1, 6)]
    meddler = Meddler(monkeypatch, *deeds)
    with pytest.raises(AskingError, match=r"Offsets 40 to 49 of .* are gone"):
        ask(asker(spark, servers), f"SELECT key FROM `{topic}`")
    assert len(meddler.pinned) == asking.PLANS_MAX


def test_other_names(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    write(servers, make_topic(servers, "asked.a-b.c"), [b"1"])
    write(servers, make_topic(servers, "Asked_Case"), [b"2"])
    asks = asker(spark, servers)
    assert ask(asks, "SELECT x.value FROM asked.`a-b`.c x JOIN `asked.a-b.c` ON true") == [("1",)]
    assert ask(asks, "SELECT asked_case.value FROM asked_case") == [("2",)]
    listed = ask(asks, "SHOW TABLES LIKE 'asked*'")
    assert listed == [("Asked_Case", 1, None), ("asked.a-b.c", 1, None)]
    (tmp_path / "names.csv").write_text("2,two\n")
    joined = f"SELECT _c1 FROM Asked_Case a JOIN csv.`{tmp_path}/names.csv` ON a.value = _c0"
    assert ask(asks, joined) == [("two",)]


def test_rows_one_task_after_the_other(spark: SparkSession, servers: str, orders: str) -> None:
    answer = asker(spark, servers).ask(f"SELECT partition, offset FROM `{orders}`")
    assert len(list(answer.rows())) == 7
    assert len(list(answer.rows(10_003))) == 7
    assert len(list(answer.rows(2))) == 2


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT nope FROM {}", "Line 1, column 8: .*nope"),
        ("SELECT * FROM {} WHERE nope(1)", "nope"),
        ("SELECT\n  CAST(value AS INT) FROM {}", "Line 2, column 3: .*no JSON|Line 2, column 3: "),
        ("SELECT 1 / 0", "Line 1, column 8: Division by zero"),
        ("SELECT * FROM stream({})", "."),
        ("SELECT reflect('java.lang.System', 'lineSeparator')", "`reflect`"),
        ("SELECT java_method('java.lang.System', 'lineSeparator') FROM {}", "`java_method`"),
    ],
)
def test_what_spark_has_against_it(
    spark: SparkSession, servers: str, orders: str, query: str, said: str
) -> None:
    with pytest.raises(AskingError, match=said) as raised:
        ask(asker(spark, servers), query.format(f"`{orders}`"))
    sentence = str(raised.value).split("\n")[0]
    assert "SQLSTATE" not in sentence
    assert "[" not in sentence[:2]
    assert sentence.endswith((".", "?", "…"))


def test_what_is_not_there(spark: SparkSession, servers: str, orders: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownTopicError, match=f"did you mean {orders}"):
        ask(asker(spark, servers), f"SELECT * FROM `{orders}x`")
    with pytest.raises(ArchiveError, match="no archive"):
        ask(asker(spark, servers), f"SELECT * FROM `{tmp_path}`")
    with pytest.raises(ArchiveError, match="no archive"):
        asker(spark, servers, archives=[tmp_path])
    with pytest.raises(AskingError, match="--schema t=nonsense"):
        asker(spark, servers, schemas={"t": "nonsense,"})
    with pytest.raises(AskingError, match="name it the same"):
        ask(asker(spark, servers, schemas={"t": "a INT"}), f"SELECT * FROM `{orders}`")
    archive_up_to(servers, orders, tmp_path / "one", {0: 3})
    archive_up_to(servers, orders, tmp_path / "two", {0: 3})
    with pytest.raises(AskingError, match="both archives"):
        asker(spark, servers, archives=[tmp_path / "one", tmp_path / "two"])


def test_moments_that_python_has_no_calendar_for(spark: SparkSession, servers: str) -> None:
    far, moment = "timestamp_millis(1700000000000000)", "+55840-11-08T22:13:20.000000Z"
    query = (
        f"SELECT DATE({far}), array({far}, NULL), map(DATE'-0044-03-15', {far}),"
        f" struct({far} AS a, 1 AS b), IF(false, struct({far} AS a), NULL),"
        " array(INTERVAL 1 MONTH),"
        f" named_struct('a', {far}, 'A', DATE'2026-01-02', 'a', parse_json('[1]'))"
    )
    (row,) = ask(asker(spark, servers), query)
    assert row == (
        "+55840-11-08",
        [moment, None],
        {"-0044-03-15": moment},
        (moment, 1),
        None,
        ["INTERVAL '1' MONTH"],
        (moment, "2026-01-02", "[1]"),
    )


def test_brokers_that_are_away_are_asked_for_only_when_needed(spark: SparkSession) -> None:
    def nobody() -> None:
        raise AskingError("Nobody is there.")

    asks = asking.Asker(spark, {"kafka.bootstrap.servers": "127.0.0.1:1"}, reach=nobody)
    assert ask(asks, "SELECT 1 AS one") == [(1,)]
    with pytest.raises(AskingError, match="Nobody"):
        ask(asks, "SELECT * FROM orders")
