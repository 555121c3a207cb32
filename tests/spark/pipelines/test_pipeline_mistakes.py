"""Each mistake in a pipeline file, and the exact sentences that answer it."""

from pathlib import Path

import pytest
from tests.spark.pipelines.pipeline_files import GOOD, edited, read

from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.places import At
from barnabas.spark.pipelines.reading import PipelineErrors


def _answer(folder: Path, text: str | bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    with pytest.raises(PipelineErrors) as caught:
        read(folder, text, monkeypatch)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    assert isinstance(caught.value, SparkJobError)
    assert not caught.value.restart_helps
    return str(caught.value).replace("p.yaml:", "").splitlines()


_CASES = Path(__file__).with_name("mistakes.txt").read_text()


def _cases() -> list[tuple[str, str, str]]:
    """What stands in the good file, what stands there instead, and the answer."""
    found = []
    for block in _CASES.split("\n\n"):
        lines = block.strip("\n").splitlines()
        old, new, answer = (
            "\n".join(line[2:] for line in lines if line[:2] == mark) for mark in ("- ", "+ ", "> ")
        )
        if old:
            found.append((old, new, answer) if new else (f"{old}\n", new, answer))
    return found


@pytest.mark.parametrize(("old", "new", "answer"), _cases())
def test_one_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, answer: str
) -> None:
    assert _answer(tmp_path, edited(old, new), monkeypatch) == answer.split("\n")


def test_the_cases_are_there() -> None:
    assert len(_cases()) >= 110


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "1: the file is empty: a pipeline needs sources and sinks."),
        ("# nothing\n", "1: the file is empty: a pipeline needs sources and sinks."),
        ("orders", "1: the file wants keys with values, and orders stands there."),
        ("- a\n- b\n", "1: the file wants keys with values, and a list stands there."),
        (b"a: 1\nb: \xff\n", "2: the byte 0xff is not UTF-8: save it as UTF-8."),
        ("a: 1\nb: \x01", "2: the character U+0001 can not stand in YAML: delete it."),
        ("a:\n\tb: 1", "2: a tab stands where YAML wants spaces: indent with spaces."),
        (
            "a:\n    b: 1\n  c: 2",
            (
                "3: the indentation does not fit the lines above: keys that belong together begin "
                "in one column."
            ),
        ),
        (
            "a: b: c",
            (
                "1: a colon stands where no key can be: check the indentation, and quote a text "
                "which has a colon and a space in it."
            ),
        ),
        ("a: 1\nb\nc: 1", "3: a key without a colon stands here: write `key: value`."),
        (
            "a:\n  b: [x,\nc: 1",
            "2: the brackets that begin here are not closed, or a text in them must be quoted.",
        ),
        (
            "a: {x: 1, y: 'z' z}",
            (
                "1: the braces that begin here are not closed, or a text in them (as ${…} is one) "
                "must be quoted."
            ),
        ),
        ("a: 1\nb: 'x\nc: 1", "2: the quoted text that begins here is not closed."),
        ("a: @x", "1: a text can not begin with this letter in YAML: quote it."),
        (
            'a: "\\d+"',
            "1: a text in double quotes has a backslash in it: write two, or take single quotes.",
        ),
        ("a: !x y", "1: the tag !x has no meaning here: leave it out."),
        (
            "a: !!python/name:os.system",
            "1: the tag !!python/name:os.system has no meaning here: leave it out.",
        ),
        (
            "a: !x!y z",
            (
                "1: a tag stands here, which has no meaning in a pipeline: leave it out, or quote "
                "the text."
            ),
        ),
        ("a: *b", "1: the alias *b has no anchor &b above."),
        ("a: &a [*a]", "1: the alias *a stands for what it stands in."),
        ("a: 1\n---\nb: 1", "2: a second document begins here: a pipeline is a file of its own."),
        ("? [a]\n: b", "1: a key is missing, or is no text."),
        ("a: {<<: b}", "1: << wants keys with values, as in <<: *defaults."),
        ('a: "\\ud800"', "1: an escape in this text is half a character: write it whole."),
        (
            'a: 1\nb: "\\UFFFFFFFF"',
            "2: YAML can not read on from here: Python int too large to convert to C int.",
        ),
        ("a: " + "[" * 60, "1: this is nested more than 50 levels deep."),
    ],
)
def test_a_file_that_is_no_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | bytes, answer: str
) -> None:
    assert _answer(tmp_path, text, monkeypatch) == [answer]


def test_a_bomb_of_aliases_is_put_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    answer = _answer(tmp_path, "\n".join(lines), monkeypatch)
    assert answer == ["5: the file has more than 50000 values up to here."]


def test_all_mistakes_are_told_at_once_by_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.avsc").write_text('{"type":\n "record"')
    text = GOOD
    for old, new in (
        ("dbtable: scores}}", "dbtable: scores}, mood: x}"),
        ("    format: json\n", "    format: yaml\n"),
        ("trigger: 1 second", "trigger: soon\ntrigger: 1 second"),
        ("path: rates.csv,", ""),
        ("topic: totals,", "topic: totals, format: avro, schema_file: r.avsc,"),
        ("from: unique,", "from: uniqe,"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(PipelineErrors) as caught:
        read(tmp_path, text, monkeypatch)
    assert str(caught.value).splitlines() == [
        (
            "p.yaml:4: trigger wants a duration such as 30 seconds or 5 minutes, and soon stands "
            "there."
        ),
        "p.yaml:5: the key trigger stands here again, after line 4.",
        (
            "p.yaml:13: sources.orders.format wants json, csv, text, avro or raw, and yaml stands "
            "there."
        ),
        "p.yaml:20: sources.rates needs path (or topic) for the format csv.",
        (
            "p.yaml:32: sinks.latest.from names uniqe, which is no source and no step: did you "
            "mean unique?"
        ),
        "p.yaml:33: sinks.other has no key mood: did you mean mode?",
        (
            "r.avsc:2: sinks.totals.schema is not the JSON of an Avro schema (Expecting ',' "
            "delimiter)."
        ),
    ]
    assert caught.value.at == At("p.yaml", 4)


def test_a_pipeline_without_sources_or_sinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = _answer(tmp_path, "pipeline: a\nservers: h:1\nsources: {}\n", monkeypatch)
    assert answer == [
        "1: the file has no sinks: a pipeline needs one at least.",
        "3: the file has no sources: a pipeline needs one at least.",
    ]
    answer = _answer(tmp_path, "pipeline: a\nsources:\nsinks: [x]\n", monkeypatch)
    assert answer == [
        "2: sources wants names, each with a topic or a file, and nothing stands there.",
        "3: sinks wants names, each with a topic or a table, and a list stands there.",
    ]


def test_a_variable_that_is_missing_in_sql_has_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = edited("'1 minute'), c.country", "'${WINDOW}'), c.country")
    assert _answer(tmp_path, text, monkeypatch) == [
        "26: variable WINDOW is not set: set it, or write ${WINDOW:-default} here."
    ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\xff", "is not a text in UTF-8"),
        (b" " * ((1 << 20) + 1), "is larger than 1 MiB"),
    ],
)
def test_a_schema_file_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, why: str
) -> None:
    (tmp_path / "x.sql").write_bytes(data)
    text = edited('schema: "id STRING, country STRING"', "schema_file: x.sql")
    assert _answer(tmp_path, text, monkeypatch) == [
        f"18: sources.customers.schema_file {why}: x.sql."
    ]
