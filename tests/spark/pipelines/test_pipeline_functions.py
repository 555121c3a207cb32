"""Python functions of a pipeline: found, typed, sent to executors, and their mistakes named."""

import datetime
import decimal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest

from barnabas.spark.pipelines import functions
from barnabas.spark.pipelines.definition import Function
from barnabas.spark.pipelines.places import At, PipelineError, Text

_AT = At("p.yaml", 7)


@pytest.fixture(autouse=True)
def _modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports is forgotten again."""
    modules, path = dict(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


def _load(python: str, folder: Path) -> Any:
    return functions.load(Text(python, _AT), str(folder))


def _refused(python: str, folder: Path) -> str:
    with pytest.raises(PipelineError) as caught:
        _load(python, folder)
    assert caught.value.at == _AT
    return str(caught.value).replace(str(folder), "DIR")


def test_a_function_next_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "a_rules.py").write_text("def f(x):\n    return x + 1\n")
    assert _load("a_rules:f", tmp_path)(1) == 2
    assert sys.path[0] == str(tmp_path)


def test_an_installed_function_and_one_in_a_class(tmp_path: Path) -> None:
    assert _load("math:sqrt", tmp_path)(4) == 2
    assert _load("datetime:date.fromisoformat", tmp_path)("2024-01-02").day == 2


def test_two_folders_with_modules_of_one_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        package = tmp_path / name / "a_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "inner.py").write_text(f"def f():\n    return {name!r}\n")
    for name in ("one", "two", "one"):
        assert _load("a_package.inner:f", tmp_path / name)() == name


def test_executors_need_not_have_the_modules(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    (tmp_path / "a_helper.py").write_text("def twice(x):\n    return 2 * x\n")
    (tmp_path / "a_main.py").write_text(
        "import a_helper\nfrom math import floor\n\n"
        "def f(x):\n    return floor(a_helper.twice(x))\n"
    )
    pickled = cloudpickle.dumps(  # type: ignore[no-untyped-call]
        _load("a_main:f", tmp_path)
    )
    there = subprocess.run(
        [
            sys.executable,
            "-c",
            "import pickle, sys; print(pickle.load(sys.stdin.buffer)(2.75))",
        ],
        input=pickled,
        capture_output=True,
        check=True,
        cwd="/",
    )
    assert there.stdout == b"5\n"


def test_installed_modules_are_not_sent(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    installed = tmp_path / "venv" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "a_library.py").write_text("def f():\n    return 1\n")
    sys.path.append(str(installed))
    (tmp_path / "a_user.py").write_text("from a_library import f\n")
    assert _load("a_user:f", tmp_path)() == 1
    sent = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    assert "a_user" in sent
    assert "a_library" not in sent


def test_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a_ruleset.py").write_text("RATE = 3\n\ndef score(rows):\n    return rows\n")
    assert _refused("a_rulset:score", tmp_path) == (
        "p.yaml:7: there is no module a_rulset, neither next to the pipeline file nor installed: "
        "did you mean a_ruleset?"
    )
    assert _refused("zzz.y:f", tmp_path) == (
        "p.yaml:7: there is no module zzz, neither next to the pipeline file nor installed."
    )
    assert _refused("a_ruleset.x:f", tmp_path) == (
        "p.yaml:7: there is no module a_ruleset.x, neither next to the pipeline file nor "
        "installed: did you mean a_ruleset?"
    )
    assert _refused("a_ruleset:scor", tmp_path) == (
        "p.yaml:7: DIR/a_ruleset.py has no function scor: did you mean score?"
    )
    assert _refused("a_ruleset:score.x", tmp_path) == (
        "p.yaml:7: DIR/a_ruleset.py has no function score.x."
    )
    assert _refused("a_ruleset:RATE", tmp_path) == (
        "p.yaml:7: a_ruleset:RATE is no function, but a value of type int."
    )


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("x = 1\ny = 1 / 0\n", "a_bad.py:2: ZeroDivisionError: division by zero."),
        ("def f(:\n", "a_bad.py:1: SyntaxError: invalid syntax."),
        (
            "import a_missing_one\n",
            "a_bad.py:1: ModuleNotFoundError: No module named 'a_missing_one'.",
        ),
        ("\nimport sys\nsys.exit()\n", "a_bad.py:3: SystemExit."),
        (
            "import json\n\njson.loads('')\n",
            "a_bad.py:3: JSONDecodeError: Expecting value: line 1 column 1 (char 0).",
        ),
    ],
)
def test_a_module_with_a_mistake(tmp_path: Path, code: str, answer: str) -> None:
    (tmp_path / "a_bad.py").write_text(code)
    assert _refused("a_bad:f", tmp_path) == f"p.yaml:7: a_bad can not be imported: {answer}"


def test_a_module_named_like_one_that_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def f():\n    return 1\n")
    sentence = _refused("json:f", tmp_path)
    assert sentence.startswith(
        "p.yaml:7: json is also the name of a module that is loaded already ("
    )
    assert sentence.endswith("): rename the one next to the pipeline file.")


def _returning(annotation: Any) -> Any:
    def f() -> None:
        return None

    f.__annotations__["return"] = annotation
    return f


def _type_of(loaded: Any, returns: str | None = None) -> str:
    text = None if returns is None else Text(returns, _AT)
    return functions.returned_type(Function("risk", _AT, Text("a:b", _AT), text), loaded)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, "BIGINT"),
        (float, "DOUBLE"),
        (str, "STRING"),
        (bool, "BOOLEAN"),
        (bytes, "BINARY"),
        (datetime.datetime, "TIMESTAMP"),
        (datetime.date, "DATE"),
        (decimal.Decimal, "DECIMAL(38,18)"),
        (list[int], "ARRAY<BIGINT>"),
        (list[list[str | None]], "ARRAY<ARRAY<STRING>>"),
        (dict[str, float], "MAP<STRING,DOUBLE>"),
        (Optional[bool], "BOOLEAN"),  # noqa: UP045 (people write it so)
        (None | list[bytes], "ARRAY<BINARY>"),
        ("datetime.date | None", "DATE"),
    ],
)
def test_the_type_that_an_annotation_means(annotation: Any, expected: str) -> None:
    assert _type_of(_returning(annotation)) == expected


def test_what_the_file_says_wins() -> None:
    assert _type_of(_returning(int), "DECIMAL(10,2)") == "DECIMAL(10,2)"


def test_a_function_that_pyspark_has_wrapped() -> None:
    from pyspark.sql.functions import udf
    from pyspark.sql.types import ArrayType, IntegerType

    assert _type_of(udf(lambda: [1], ArrayType(IntegerType()))) == "ARRAY<INT>"


@pytest.mark.parametrize(
    ("loaded", "says"),
    [
        (lambda: 1, "no annotation"),
        (_returning(object), "the annotation object"),
        (_returning(int | str), "the annotation int | str"),
        (_returning(list[object]), "the annotation list[object]"),
        (_returning(tuple[int, ...]), "the annotation tuple[int, ...]"),
    ],
)
def test_annotations_that_mean_no_type(loaded: Any, says: str) -> None:
    with pytest.raises(PipelineError) as caught:
        _type_of(loaded)
    assert str(caught.value) == (
        f"p.yaml:7: functions.risk has {says}, which no type of SQL's follows from: add returns, "
        "as in returns: DOUBLE."
    )


def test_annotations_that_can_not_be_understood() -> None:
    with pytest.raises(PipelineError) as caught:
        _type_of(_returning("Nobody"))
    assert str(caught.value) == (
        "p.yaml:7: functions.risk has annotations that can not be understood (name 'Nobody' is "
        "not defined): add returns, as in returns: DOUBLE."
    )
