"""`barnabas sql` as people run it, and how values look."""

import datetime
import decimal
import json
import math
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import Row, types
from tests.cli.conftest import COMMAND, Done, Run, environment

from barnabas.cli import sql_print
from barnabas.cli.sql_print import CsvPrinter, JsonPrinter, Printer, TablePrinter
from barnabas.cli.sql_values import cell, csv_value, json_value
from barnabas.spark.asking.asker import Column
from barnabas.testing import Broker

PATIENCE_S = 240.0
"""For Java on a machine that is busy with other things."""

Sql = Callable[..., Done]


@pytest.fixture(scope="module")
def orders(broker: Broker) -> str:
    """A topic of 1,200 orders on one partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in range(1200):
        value = json.dumps({"id": number, "name": "Ünal"}, ensure_ascii=False).encode()
        producer.produce("sql-orders", key=b"\xff", value=value, timestamp=1_700_000_000_000)
    assert producer.flush(60) == 0
    return "sql-orders"


@pytest.fixture
def sql(broker: Broker) -> Sql:
    def sql(*arguments: str, stdin: str = "") -> Done:
        return subprocess.run(
            [*COMMAND, "sql", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=environment(broker.bootstrap_servers),
            check=False,
        )

    return sql


@pytest.mark.timeout(2 * PATIENCE_S)
def test_a_question_from_stdin_with_a_limit(sql: Sql, orders: str) -> None:
    query = f"SELECT offset, timestamp, key_bytes, doc FROM `{orders}` ORDER BY offset;\n"
    done = sql("-", "--json", "--limit", "2", stdin=query)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "offset": number,
            "timestamp": "2023-11-14T22:13:20.000Z",
            "key_bytes": {"base64": "/w=="},
            "doc": {"id": number, "name": "Ünal"},
        }
        for number in range(2)
    ]
    # Nothing of Spark's, nor of Java's.
    assert done.stderr == "(2 rows shown, more were left out: --limit 0 shows all)\n"


@pytest.mark.timeout(2 * PATIENCE_S)
def test_a_mistake_is_one_sentence_and_its_place(sql: Sql, orders: str, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text(f"SELECT key,\n  nope\nFROM `{orders}`")
    done = sql("--file", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    first, line, caret = done.stderr.splitlines()
    assert first.startswith("barnabas: Line 2, column 3: ")
    assert (line, caret) == ("    nope", "    ^")


@pytest.mark.timeout(2 * PATIENCE_S)
def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    million = "range(1000000)"
    query = f"SELECT count(*) FROM {million} a, {million} b WHERE a.id * b.id % 7 = 3"
    with subprocess.Popen(
        [*COMMAND, "sql", "--conf", f"spark.local.dir={tmp_path}", query],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as running:
        deadline = time.monotonic() + PATIENCE_S
        while not list(tmp_path.rglob("blockmgr-*")):
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert said == ""


@pytest.mark.timeout(2 * PATIENCE_S)
def test_ctrl_c_ends_a_query_that_runs() -> None:
    million = "range(1000000)"
    query = f"SELECT count(*) FROM {million} a, {million} b WHERE a.id * b.id % 7 = 3"
    screen, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, "sql", query], stderr=theirs, env=environment()) as running:
        os.close(theirs)
        said = until_it_says(screen, " tasks, ")
        running.send_signal(signal.SIGINT)
        running.wait(PATIENCE_S)
    said += until_it_says(screen, None)
    os.close(screen)
    assert running.returncode == 130
    # One line, drawn over and over, and gone at the end.
    assert "\n" not in said
    assert said.endswith("\r\x1b[K")


def test_nothing_of_an_interrupted_call_is_logged() -> None:
    # Py4J logs in three places, one of which makes the root logger write what all of them say.
    script = """
import logging
from barnabas.cli.sql import _interruptible
with _interruptible():
    logging.exception("a call was interrupted")
    logging.getLogger("py4j.java_gateway").exception("a call was interrupted")
    logging.getLogger("py4j.clientserver").exception("Java has gone")
"""
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stderr == ""


def until_it_says(screen: int, text: str | None) -> str:
    """All that is on a screen by then; None: at its end."""
    said = ""
    while text is None or text not in said:
        try:
            data = os.read(screen, 65536)
        except OSError:
            # A screen that nobody writes to any more has no end, but an error.
            data = b""
        if not data:
            assert text is None, said
            break
        said += data.decode(errors="replace")
    return said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SELECT 1", "--archive", "nothing-here"], "There is no archive in"),
        (["SELECT 1", "--schema", "orders"], "--schema orders: write it as orders='id BIGINT"),
        (["SELECT 1", "--schema", "a=b INT", "--schema", "a=c INT"], "given twice"),
        (["SELECT 1", "--conf", "x=y"], "write it as spark.KEY=VALUE"),
        (["--file", "nothing.sql"], "nothing.sql: No such file"),
    ],
)
def test_what_is_refused_before_java_starts(run: Run, arguments: list[str], said: str) -> None:
    done = run("sql", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["SELECT 1", "--file", "x"], ["x", "--json", "--csv"]])
def test_usage(run: Run, arguments: list[str]) -> None:
    assert run("sql", *arguments).returncode == 2


def test_java_that_is_missing(process: Run, tmp_path: Path) -> None:
    done = process("sql", "SELECT 1", JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "JAVA_HOME" in done.stderr


# How rows look


Capture = pytest.CaptureFixture[str]

COLUMNS = (
    Column("n", types.LongType()),
    Column("name", types.StringType()),
    Column("at", types.TimestampType()),
    Column("name", types.VariantType()),
)
ROWS = [
    (1, "a\nb", "2026-01-02T03:04:05.678000Z", '{"x":1}'),
    (1000, None, "2026-01-02T03:04:05.678901Z", None),
    (None, "日本", None, '"text"'),
]


def fill(printer: Printer) -> None:
    for row in ROWS:
        printer.row(row)
    printer.end()


def test_a_table(capsys: Capture) -> None:
    fill(TablePrinter(COLUMNS))
    assert capsys.readouterr().out == (
        "   n  name  at                           name\n"
        '   1  a\\nb  2026-01-02T03:04:05.678Z     {"x":1}\n'
        "1000  NULL  2026-01-02T03:04:05.678901Z  NULL\n"
        'NULL  日本  NULL                         "text"\n'
    )


def test_a_table_goes_on_with_the_widths_it_began_with(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_print, "WIDTHS_FROM", 2)
    table = TablePrinter(COLUMNS[:2])
    for row in ((1, "a"), (2, "b"), (333, "long")):
        table.row(row)
    assert capsys.readouterr().out == "n  name\n1  a\n2  b\n333  long\n"


def test_json_and_csv(capsys: Capture) -> None:
    fill(JsonPrinter(COLUMNS))
    first, second, third = capsys.readouterr().out.splitlines()
    at = "2026-01-02T03:04:05.678Z"
    assert first == f'{{"n": 1, "name": "a\\nb", "at": "{at}", "name_2": {{"x":1}}}}'
    assert json.loads(second)["at"] == "2026-01-02T03:04:05.678901Z"
    assert third == '{"n": null, "name": "日本", "at": null, "name_2": "text"}'
    fill(CsvPrinter(COLUMNS))
    assert capsys.readouterr().out.splitlines()[:3] == [
        "n,name,at,name",
        '1,"a',
        f'b",{at},"{{""x"":1}}"',
    ]


def test_nothing_has_a_head_all_the_same(capsys: Capture) -> None:
    TablePrinter(COLUMNS[:2]).end()
    CsvPrinter(COLUMNS[:2]).end()
    JsonPrinter(COLUMNS[:2]).end()
    assert capsys.readouterr().out == "n  name\nn,name\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (decimal.Decimal("12345678901234567890.10"), "12345678901234567890.10"),
        (math.nan, '"nan"'),
        (math.inf, '"inf"'),
        (1.5, "1.5"),
        (True, "true"),
        (b"a", '"a"'),
        (bytearray(b"\xff"), '{"base64": "/w=="}'),
        (datetime.date(2026, 1, 2), '"2026-01-02"'),
        (
            datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
            '"2026-01-02T00:00:00.000000Z"',
        ),
        ([Row(key="h", value=bytearray(b"v")), None], '[{"key": "h", "value": "v"}, null]'),
        ({1: "a", None: "b"}, '{"1": "a", "null": "b"}'),
        (types.VariantVal.parseJson('{"a": [1]}'), '{"a":[1]}'),
    ],
)
def test_values_in_json(value: object, text: str) -> None:
    assert json_value(value) == text
    json.loads(text)


NESTED = types.StructType(
    [
        types.StructField("at", types.TimestampType()),
        types.StructField("doc", types.VariantType()),
        types.StructField("at", types.StringType()),
    ]
)
MOMENT = "2026-01-02T03:04:05.678000Z"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (
            Row("at", "doc", "at")(MOMENT, '{"k":[1]}', MOMENT),
            NESTED,
            (
                '{"at": "2026-01-02T03:04:05.678Z", "doc": {"k":[1]}, '
                '"at_2": "2026-01-02T03:04:05.678000Z"}'
            ),
        ),
        ([MOMENT, None], types.ArrayType(types.TimestampType()), f'["{MOMENT[:-4]}Z", null]'),
        (
            {MOMENT: "[1]"},
            types.MapType(types.TimestampType(), types.VariantType()),
            f'{{"{MOMENT[:-4]}Z": [1]}}',
        ),
    ],
)
def test_values_within_others_are_what_they_are_alone(value: Any, kind: Any, text: str) -> None:
    assert json_value(value, kind) == text
    assert csv_value(value, kind) == text
    assert cell(value, kind).startswith(text[:50])


def test_cells_are_short_and_move_no_cursor() -> None:
    assert cell("x" * 61) == "x" * 59 + "…"
    assert cell("x" * 60) == "x" * 60
    assert cell("\x1b[2J\t\n") == "\\x1b[2J\\t\\n"
    assert cell(None) == "NULL"
    assert cell(bytearray(b"\xff")) == "/w=="
