"""A pipeline file as values: everything that may stand in it, with its lines."""

import json
import os
from pathlib import Path

import pytest
from tests.spark.pipelines.pipeline_files import GOOD, edited, read

from barnabas.spark.pipelines import reading
from barnabas.spark.pipelines.definition import (
    DeduplicateStep,
    FileSource,
    Function,
    OtherSink,
    PythonStep,
    SqlStep,
    TableSink,
    TopicSink,
    TopicSource,
    Watermark,
)
from barnabas.spark.pipelines.places import At, PipelineError, Text

_EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*/pipeline.yaml"))


def _at(line: int) -> At:
    return At("p.yaml", line)


def test_everything_a_file_can_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = read(tmp_path, GOOD, monkeypatch)
    assert pipeline.file == "p.yaml"
    assert pipeline.folder == str(tmp_path)
    assert pipeline.name == "orders-by-minute"
    assert pipeline.servers == "127.0.0.1:9092"
    assert pipeline.state == str(tmp_path / "state/orders")
    assert pipeline.trigger == "1 second"
    assert pipeline.settings == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}
    assert pipeline.kafka == {"compression.type": "lz4"}
    assert pipeline.functions == {
        "risk": Function("risk", _at(8), Text("rules:risk", _at(8)), Text("DOUBLE", _at(8)))
    }
    assert pipeline.sources == {
        "orders": TopicSource(
            "orders",
            _at(10),
            ("orders",),
            schema=Text("order_id BIGINT, customer STRING, amount STRING, at TIMESTAMP", _at(13)),
            cast={"amount": Text("DECIMAL(10,2)", _at(14))},
            expect=(Text("amount >= 0", _at(15)),),
            watermark=Watermark("at", "30 seconds", _at(16)),
            dead_letter=Text("orders-dead", _at(17)),
        ),
        "customers": TopicSource(
            "customers",
            _at(18),
            ("customers",),
            schema=Text("id STRING, country STRING", _at(18)),
            table=True,
        ),
        "rates": FileSource(
            "rates",
            _at(19),
            "csv",
            "rates.csv",
            Text("currency STRING, rate DOUBLE", _at(19)),
        ),
    }


def test_steps_and_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = read(tmp_path, GOOD, monkeypatch)
    # `scored` stands first in the file, but needs `unique`.
    assert list(pipeline.steps) == ["unique", "scored", "per_minute"]
    sql = "".join(line[6:] for line in GOOD.splitlines(keepends=True)[23:26])
    assert pipeline.steps == {
        "unique": DeduplicateStep("unique", _at(27), Text("orders", _at(27)), ("order_id",)),
        "scored": PythonStep(
            "scored",
            _at(21),
            Text("rules:score", _at(21)),
            (Text("unique", _at(21)),),
            Text("order_id BIGINT, score DOUBLE", _at(21)),
        ),
        "per_minute": SqlStep("per_minute", _at(22), Text(sql, _at(24))),
    }
    assert pipeline.sinks == {
        "totals": TopicSink(
            "totals",
            _at(29),
            Text("per_minute", _at(29)),
            Text("totals", _at(29)),
            key=Text("country", _at(29)),
        ),
        "orders_table": TableSink(
            "orders_table",
            _at(30),
            Text("orders", _at(30)),
            Text("tables/orders", _at(30)),
            partition_by=("customer",),
        ),
        "latest": TableSink(
            "latest",
            _at(31),
            Text("unique", _at(31)),
            Text("tables/latest", _at(31)),
            mode="upsert",
            key=("order_id",),
            order_by=Text("at", _at(31)),
        ),
        "other": OtherSink(
            "other",
            _at(32),
            Text("scored", _at(32)),
            "jdbc",
            options={"url": "jdbc:x", "dbtable": "scores"},
        ),
    }


_SMALL = """\
pipeline: small
servers: a:1
sources: {s: {topic: t}}
sinks: {o: {from: s, topic: u}}
"""


def _source(folder: Path, keys: str, monkeypatch: pytest.MonkeyPatch) -> TopicSource:
    text = _SMALL.replace("{topic: t}", keys)
    source = read(folder, text, monkeypatch).sources["s"]
    assert isinstance(source, TopicSource)
    return source


def test_what_is_left_out_has_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = read(tmp_path, _SMALL, monkeypatch)
    assert pipeline.state == str(tmp_path / ".barnabas/small")
    assert pipeline.trigger is None
    assert pipeline.sources == {"s": TopicSource("s", _at(3), ("t",))}
    assert pipeline.sinks == {"o": TopicSink("o", _at(4), Text("s", _at(4)), Text("u", _at(4)))}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("{topics: [a, b]}", {"topics": ("a", "b")}),
        ("{pattern: 'a-.*$'}", {"topics": (), "pattern": "a-.*$"}),
        ("{topic: 12}", {"topics": ("12",)}),
        ("{topic: no, format: RAW, key: binary}", {"topics": ("no",), "format": "raw"}),
        ("{topic: t, max_per_trigger: 500}", {"max_per_trigger": 500}),
        ("{topic: t, starting: latest, nulls: skip}", {"starting": "latest", "nulls": "skip"}),
        (
            "{topic: t, options: {a: true, b: 1.50, c: yes, d: 'True', e: '', f: False}}",
            {"options": {"a": "true", "b": "1.50", "c": "yes", "d": "True", "e": "", "f": "false"}},
        ),
        ("{topic: t, kafka: {fetch.max.bytes: 1000}}", {"kafka": {"fetch.max.bytes": "1000"}}),
        (
            "{topic: t, watermark: '_timestamp, 1 hour 30 minutes'}",
            {"watermark": Watermark("_timestamp", "1 hour 30 minutes", _at(3))},
        ),
        ("{topic: t, nulls: dead-letter, dead_letter: d}", {"nulls": "dead-letter"}),
    ],
)
def test_keys_of_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str, expected: dict[str, object]
) -> None:
    source = _source(tmp_path, keys, monkeypatch)
    assert {name: getattr(source, name) for name in expected} == expected


_AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", "long"]}]}'


def test_avro_schemas_as_text_as_keys_and_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.avsc").write_text(_AVRO)
    for keys, at in (
        (f"{{topic: t, format: avro, cast: {{id: INT}}, schema: '{_AVRO}'}}", _at(3)),
        (f"{{topic: t, format: avro, cast: {{id: INT}}, schema: {_AVRO}}}", _at(3)),
        ("{topic: t, format: avro, framing: confluent, schema_file: r.avsc}", At("r.avsc", 1)),
    ):
        schema = _source(tmp_path, keys, monkeypatch).schema
        assert schema is not None
        assert json.loads(schema.value) == json.loads(_AVRO)
        assert schema.at == at


@pytest.mark.parametrize(
    ("step", "line", "value"),
    [
        ("  a: SELECT 1 FROM s\n", 6, "SELECT 1 FROM s"),
        ("  a:\n    SELECT 1\n    FROM s\n", 7, "SELECT 1 FROM s"),
        ("  a: |\n    SELECT 1\n    FROM s\n", 7, "SELECT 1\nFROM s\n"),
        ("  a: |-  # SQL\n\n    SELECT 1 FROM s\n", 7, "\nSELECT 1 FROM s"),
        ("  a: >\n    SELECT 1\n    FROM s\n", 7, "SELECT 1 FROM s\n"),
        (
            "  a:\n    sql: &x\n      !!str\n      |\n      SELECT 1 FROM s\n",
            10,
            "SELECT 1 FROM s\n",
        ),
        ("  a: 'SELECT 1\n    FROM s'\n", 6, "SELECT 1 FROM s"),
    ],
)
def test_the_line_of_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, line: int, value: str
) -> None:
    text = f"{_SMALL}steps:\n{step}"
    found = read(tmp_path, text, monkeypatch).steps["a"]
    assert isinstance(found, SqlStep)
    assert found.sql == Text(value, _at(line))


def test_the_environment_fills_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
pipeline: a
servers: "${HOST}:${PORT:-9092},${OTHER:-b:1}"
sources: {s: {topic: '${TOPIC}', table: "${NO:-false}"}}
steps:
  x: |
    SELECT '$${X}$' FROM ${FROM:-s}
sinks: {o: {from: x, topic: u}}
"""
    pipeline = read(tmp_path, text, monkeypatch, HOST="h", OTHER="", TOPIC="the.topic", FROM="s")
    assert pipeline.servers == "h:9092,b:1"
    source, step = pipeline.sources["s"], pipeline.steps["x"]
    assert isinstance(source, TopicSource)
    assert source.topics == ("the.topic",)
    assert isinstance(step, SqlStep)
    assert step.sql == Text("SELECT '${X}$' FROM s\n", _at(6))


def test_anchors_and_merged_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
pipeline: a
servers: h:1
sources:
  a: &usual {topic: a, format: text, starting: latest}
  b: {<<: *usual, topic: b}
  c: {<<: [{nulls: skip}, *usual], topic: c}
sinks: {o: {from: a, topic: u}}
"""
    sources = read(tmp_path, text, monkeypatch).sources
    assert sources["b"] == TopicSource("b", _at(5), ("b",), format="text", starting="latest")
    assert sources["c"] == TopicSource(
        "c", _at(6), ("c",), format="text", starting="latest", nulls="skip"
    )


def test_names_are_found_in_any_case_of_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = edited("{deduplicate: orders,", "{deduplicate: Orders,").replace(
        "from: per_minute", "from: PER_MINUTE"
    )
    pipeline = read(tmp_path, text, monkeypatch)
    assert pipeline.sinks["totals"].input.value == "per_minute"
    unique = pipeline.steps["unique"]
    assert isinstance(unique, DeduplicateStep)
    assert unique.input.value == "orders"


def test_two_sinks_may_share_a_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _SMALL.replace("topic: u}}", "topic: u}, p: {from: s, topic: u}}")
    assert list(read(tmp_path, text, monkeypatch).sinks) == ["o", "p"]


def test_a_byte_order_mark_and_windows_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()
    assert read(tmp_path, data, monkeypatch) == read(tmp_path, GOOD, monkeypatch)


@pytest.mark.parametrize("path", _EXAMPLES, ids=lambda path: str(path.parent.name))
def test_the_examples_are_right(path: Path) -> None:
    assert reading.read(str(path), {}).folder == str(path.parent)


def test_there_are_examples() -> None:
    assert len(_EXAMPLES) >= 4


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "large.yaml").write_bytes(b"#" * (1 << 20) + b"\n")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for path, sentence in (
        ("missing.yaml", "There is no file missing.yaml."),
        ("null\0.yaml", "There is no file null\ufffd.yaml."),
        (".", ". is a folder: name the pipeline file in it."),
        ("large.yaml", "large.yaml is larger than 1 MiB, which no pipeline file is."),
        ("loop.yaml", "loop.yaml can not be read: Too many levels of symbolic links."),
    ):
        with pytest.raises(PipelineError) as caught:
            reading.read(path, os.environ)
        assert str(caught.value) == sentence
