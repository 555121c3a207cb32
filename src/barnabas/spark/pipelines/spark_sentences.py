"""Spark's complaints about a pipeline as one sentence at the line it is about."""

import logging
import re
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Final

from barnabas.spark.deaths import job_error
from barnabas.spark.pipelines.places import At, PipelineError, Text

_CONDITION: Final = re.compile(r"^\s*\[[A-Z][A-Z0-9_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+( \(line \d+, pos \d+\))?")
_REST: Final = re.compile(r"\n== .*|; line \d+ pos \d+.*|;\n.*|\n\nJVM stacktrace:.*", re.DOTALL)
"""The SQL, the place in it, and the plan that Spark puts behind its sentences."""
_PLACE: Final = re.compile(r"line (\d+),? pos \d+")
_COLUMN: Final = re.compile(
    r"A column, variable, or function parameter with name (`.*?`) cannot be resolved\."
)
_SUGGESTIONS: Final = re.compile(r"Did you mean one of the following\? \[(.*)\]\.")
_OF_PYTHON: Final = ("PYTHON_DATA_SOURCE_ERROR", "PYTHON_EXCEPTION")
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark prints each error of SQL with Java's trace as well as raising it: once is enough."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def told_at(place: Text | At, what: str, names: Collection[str] = ()) -> Iterator[None]:
    """What Spark raises within, as a PipelineError about `what`; `names` are sources and steps."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        with quiet():
            yield
    except (PySparkException, Py4JError) as error:
        at = place.at if isinstance(place, Text) else place
        if isinstance(place, Text):
            # A text that ends too early ends below its last line.
            lines = len(place.value.rstrip().splitlines())
            at = at.below(min(line_of(error), lines) - 1)
        raise PipelineError(at, f"{what}: {sentence_of(error, names)}") from error


def line_of(error: Exception) -> int:
    """Of the SQL that the error is about, counted from 1."""
    found = _PLACE.search(str(getattr(error, "_desc", None) or error))
    return int(found[1]) if found else 1


def sentence_of(error: Exception, names: Collection[str] = ()) -> str:
    """Spark's message on one line, without codes, plans and traces; ours where it carries one."""
    # Elsewhere a sentence of ours is only part of the plan that Spark shows.
    ours = job_error(error) if condition_of(error) in _OF_PYTHON else None
    if ours is not None:
        return str(ours)
    parameters = _parameters(error)
    if "relationName" in parameters:
        return _no_relation(parameters["relationName"], names)
    if "routineName" in parameters:
        return (
            f"there is no function {parameters['routineName'].strip('`')}: check its spelling, or "
            "declare it under functions."
        )
    text = _REST.sub("", str(getattr(error, "_desc", None) or error))
    text = _STATE.sub("", _CONDITION.sub("", text))
    text = _COLUMN.sub(r"a column with name \1 cannot be resolved.", text)
    text = _SUGGESTIONS.sub(lambda found: f"Did you mean one of {_plain(found[1])}?", text)
    sentence = " ".join(text.split())
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def condition_of(error: Exception) -> str:
    """Spark's name of the error; empty when it has none."""
    asked: Callable[[], str | None] | None = getattr(error, "getCondition", None)
    return (asked() if asked is not None else None) or ""


def python_sentence(error: Exception, folder: str) -> str:
    """What a function of the pipeline's raised, with the line of the pipeline's own file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(folder)]
    where = f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return f"failed{where}: {sentence_of(error)}"
    text = " ".join(str(error).split())
    return f"raised {type(error).__name__}{where}{': ' if text else ''}{text}"


def _parameters(error: Exception) -> dict[str, str]:
    asked = getattr(error, "getMessageParameters", None)
    return dict(asked() or {}) if asked is not None else {}


def _no_relation(quoted: str, names: Collection[str]) -> str:
    name = quoted.replace("`", "")
    near = get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}."
    return f"there is no source or step {name}: {meant}"


def _plain(suggestions: str) -> str:
    return f"[{suggestions.replace('`', '')}]"
