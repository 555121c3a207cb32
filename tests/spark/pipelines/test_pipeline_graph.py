"""Which tables SQL reads as far as words tell, and what follows from that for steps and sinks."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.pipelines.pipeline_files import GOOD, edited, read

from barnabas.spark.pipelines.graph import needed, warnings
from barnabas.spark.pipelines.reading import PipelineErrors
from barnabas.spark.pipelines.sql_words import tables, tokens, unbalanced


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM a", "a"),
        ("select * from A aa join `B` on aa.x = b.c", "a b"),
        ("SELECT a, b FROM c, d AS x, e WHERE f IN (g, h)", "c d e"),
        ("SELECT * FROM a JOIN b USING (c, d), e", "a b e"),
        ("SELECT * FROM (a JOIN b ON a.x = b.x) LEFT JOIN (SELECT * FROM c) d", "a b c"),
        ("SELECT x FROM a UNION ALL SELECT y FROM b ORDER BY c, d", "a b"),
        ("SELECT (SELECT max(x) FROM b) FROM a WHERE EXISTS (SELECT 1 FROM c)", "b a c"),
        ("FROM a SELECT b", "a"),
        ("TABLE a", "a"),
        ("SELECT * FROM f(TABLE(a)), g(b)", "a"),
        ("FROM a |> WHERE x |> JOIN b ON y |> AGGREGATE sum(c), d", "a b"),
        ("SELECT * FROM a LATERAL VIEW explode(b) t AS c, d", "a"),
        ("SELECT * FROM a JOIN LATERAL (SELECT * FROM b) c", "a b"),
        ("SELECT * FROM catalog.a JOIN b.c.d", ""),
        ("SELECT * FROM range(10) JOIN a", "a"),
        ("SELECT extract(YEAR FROM a), trim(BOTH 'x' FROM b) FROM c", "c"),
        ("SELECT a IS DISTINCT FROM b, x.from, a FROM c", "c"),
        ("SELECT 'FROM a', \"FROM b\", r'\\' FROM c", "c"),
        ("SELECT 'it\\'s FROM a' FROM b", "b"),
        ("SELECT 1 -- FROM a\nFROM b", "b"),
        ("SELECT 1 -- FROM a\\\nFROM b", ""),
        ("SELECT 1 /* FROM a /* FROM b */ FROM c */ FROM d", "d"),
        ("SELECT 1 FROM a /* JOIN b", "a"),
        ("SELECT * FROM `a``b`", "a`b"),
        ("SELECT * FROM window JOIN sort", "window sort"),
        # What WITH defines is no table; in its own definition the table is still meant.
        ("WITH b AS (SELECT * FROM a) SELECT * FROM b", "a"),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "a"),
        ("WITH b(x) AS (SELECT 1 FROM a), c AS (FROM b) SELECT * FROM c JOIN d", "a d"),
        ("WITH RECURSIVE b AS (SELECT * FROM b JOIN a) SELECT * FROM b", "a"),
        ("SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b) JOIN b", "a b"),
        ("SELECT sum(x) FILTER (WHERE y), a FROM b GROUP BY window(c, '1 minute'), d", "b"),
        ("", ""),
        ("SELECT * FROM", ""),
        (")))) FROM a b ((((", "a"),
    ],
)
def test_tables_of_sql(sql: str, expected: str) -> None:
    assert " ".join(tables(sql)) == expected


@given(st.text(alphabet="aA(),.;|>*/-'\"`\\ \nfromjinwth_1é", max_size=80) | st.text(max_size=80))
def test_any_text_has_words(sql: str) -> None:
    names = tables(sql)
    assert len(set(names)) == len(names)
    assert all(name and name == name.lower() for name in names)
    assert unbalanced(f"({sql}") or unbalanced(sql) or "--" in sql or "/*" in sql
    assert sum(len(text) for _, text in tokens(sql)) <= len(sql)


def test_what_a_sink_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = read(tmp_path, GOOD, monkeypatch)
    assert needed(pipeline, "totals") == ("orders", "customers", "per_minute")
    assert needed(pipeline, "orders_table") == ("orders",)
    assert needed(pipeline, "other") == ("orders", "unique", "scored")


def test_what_no_sink_needs_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = edited("from: scored, format", "from: orders, format")
    assert warnings(read(tmp_path, text, monkeypatch)) == (
        "p.yaml:19: sources.rates is used by no sink.",
        "p.yaml:21: steps.scored is used by no sink.",
    )


def _steps(*lines: str) -> str:
    return "\n".join(
        (
            "pipeline: a",
            "servers: h:1",
            "sources: {s: {topic: t}}",
            "sinks: {o: {from: s, topic: u}}",
            "steps:",
            *(f"  {line}" for line in lines),
        )
    )


def test_steps_keep_the_order_of_the_file_where_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _steps(
        "d: SELECT * FROM s",
        "c: SELECT * FROM B JOIN d",
        "a: SELECT * FROM s",
        "b: SELECT * FROM s JOIN a",
    )
    assert list(read(tmp_path, text, monkeypatch).steps) == ["d", "a", "b", "c"]


def test_a_column_named_like_a_step_makes_no_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _steps(
        "a: SELECT sum(x) AS b, s.b, b FROM s",
        "b: WITH c AS (SELECT * FROM a) SELECT * FROM c",
        "c: SELECT * FROM b",
    )
    assert list(read(tmp_path, text, monkeypatch).steps) == ["a", "b", "c"]


def test_each_circle_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _steps(
        "before: SELECT * FROM b",
        "a: SELECT * FROM c",
        "b: SELECT * FROM a JOIN s",
        "c: SELECT * FROM s JOIN b",
        "alone: SELECT * FROM alone",
        "after: {deduplicate: alone, by: x}",
    )
    with pytest.raises(PipelineErrors) as caught:
        read(tmp_path, text, monkeypatch)
    assert str(caught.value).splitlines() == [
        (
            "p.yaml:7: steps.a needs steps.c, which needs steps.b, which needs steps.a: a step "
            "can not need itself."
        ),
        "p.yaml:10: steps.alone needs steps.alone: a step can not need itself.",
    ]


def test_a_long_chain_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"n{n}: SELECT * FROM n{n + 1}" for n in range(2000)]
    text = _steps(*lines, "n2000: SELECT * FROM s").replace("from: s,", "from: n0,")
    pipeline = read(tmp_path, text, monkeypatch)
    assert next(iter(pipeline.steps)) == "n2000"
    assert len(needed(pipeline, "o")) == 2002


A, B = "a: {topic: a, schema: id INT}", "b: {topic: b, schema: id INT}"


def _topics(sources: list[str], sinks: list[str]) -> str:
    """Sources from line 4 on, a step over `a`, and sinks."""
    lines = ["pipeline: p", "servers: h:1", "sources:", *(f"  {line}" for line in sources)]
    lines += ["steps:", "  upper: SELECT * FROM a WHERE id > 1"]
    return "\n".join([*lines, "sinks:", *(f"  {line}" for line in sinks)])


@pytest.mark.parametrize(
    ("sources", "sinks", "sentence"),
    [
        (
            [A, B],
            ["s: {from: b, topic: a}", "u: {from: upper, topic: b}"],
            (
                "9: sinks.s.topic is a, which sources.a reads, and sinks.u.topic is b, which "
                "sources.b reads"
            ),
        ),
        (
            [A.replace("INT", "INT, dead_letter: b"), B.replace("INT", "INT, dead_letter: a")],
            ["s: {from: a, topic: x}", "u: {from: b, topic: y}"],
            (
                "4: sources.a.dead_letter is b, which sources.b reads, and sources.b.dead_letter "
                "is a, which sources.a reads"
            ),
        ),
        (
            [A.replace("INT", "INT, dead_letter: d"), "all: {pattern: 'd|e', format: raw}"],
            ["s: {from: a, table: s}", "u: {from: all, topic: a}"],
            (
                "4: sources.a.dead_letter is d, which sources.all reads, and sinks.u.topic is a, "
                "which sources.a reads"
            ),
        ),
        (
            [A, B, "c: {topic: c, schema: id INT}"],
            ["s: {from: a, topic: b}", "t: {from: b, topic: c}", "u: {from: c, topic: a}"],
            (
                "10: sinks.s.topic is b, which sources.b reads, and sinks.t.topic is c, which "
                "sources.c reads, and sinks.u.topic is a, which sources.a reads"
            ),
        ),
    ],
)
def test_rows_that_would_go_round_for_ever(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: list[str],
    sinks: list[str],
    sentence: str,
) -> None:
    with pytest.raises(PipelineErrors) as caught:
        read(tmp_path, _topics(sources, sinks), monkeypatch)
    end = ": rows would go round for ever, so take another topic."
    assert str(caught.value) == f"p.yaml:{sentence}{end}"


@pytest.mark.parametrize(
    ("sources", "sinks"),
    [
        # On and on, but not round.
        ([A, B], ["s: {from: upper, topic: b}", "u: {from: b, topic: c}"]),
        # A table is looked up, and its rows set nothing going.
        (
            [A, B.replace("INT", "INT, table: true"), "c: {topic: c, format: raw}"],
            ["s: {from: upper, topic: b}", "u: {from: c, topic: a}"],
        ),
        # Nobody writes the dead letters of a source that no sink needs.
        ([A, B.replace("INT", "INT, dead_letter: a")], ["s: {from: upper, topic: b}"]),
    ],
)
def test_rows_that_come_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], sinks: list[str]
) -> None:
    assert read(tmp_path, _topics(sources, sinks), monkeypatch).sinks
