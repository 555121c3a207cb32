"""What a query or a driver died of: one sentence, and whether starting it again can help."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from barnabas.spark.errors import SparkJobError

_OURS: Final = re.compile(r"^(barnabas\.spark(?:\.\w+)+)\.(\w+): (.+)$", re.MULTILINE)
"""The last line of a Python trace, which Spark carries from its workers as text."""
_PYTHON: Final = re.compile(
    r"^(?!org\.|java\.|scala\.)[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)(?:: .*)?$",
    re.MULTILINE,
)
_PREFIX: Final = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_CALL: Final = re.compile(
    r"^An error occurred while calling \S+(?:\s+:| Trace:)\s+(?:[a-z][\w.]*\.[A-Z]\w*: )?"
)
"""Before what Java says of an error that Spark has no name for."""
_UNANSWERED: Final = re.compile(
    r"(?:py4j\.protocol\.Py4JError: )?An error occurred while calling \S+"
    r"|py4j\.protocol\.Py4JNetworkError(?:: .*)?"
)
"""All that py4j says when Java ends, or a line to it is cut, before a call is answered."""
_JAVA_ENDED: Final = (
    "Spark's Java did not answer: it ended, or was ended, in the midst of a call. If it does so "
    "again, look into Spark's log, and whether the machine has enough memory."
)
_WAITED: Final = "Exception thrown in awaitResult"
"""All that Spark says at first of what something died of that it waited for."""
_CAUSE: Final = re.compile(r"^Caused by: (?:[a-z][\w.]*\.[A-Z][\w$]*: )?(.+)$", re.MULTILINE)
_LATE: Final = "Python worker failed to connect back"
_TOO_BUSY: Final = (
    "A Python worker was not there after 10 s, which is as long as Spark waits: "
    "the machine is too busy, or short of memory."
)
_SUFFIX: Final = re.compile(r"\s*SQLSTATE: \w+")
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.[A-Z0-9_.]+)?\]")
_PLAN: Final = re.compile(
    r"\n=== Streaming Query ===|(?<=SQLSTATE: \w{5});(?: line \d+ pos \d+;)?\n"
)
"""From here on there is what a query would do, errors that it would raise included."""
_ENDS: Final = ("\n\nJVM stacktrace:", "\n\nDriver stacktrace:")
_SENTENCE_CHARS_MAX: Final = 400

_NEEDS_CHANGE: Final = frozenset(
    {
        # Another query works on this checkpoint: starting again would only go on with the fight.
        "CONCURRENT_STREAM_LOG_UPDATE",
        "CONCURRENT_QUERY",
        # The checkpoint is another query's, or of another shape of this one.
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        "STREAMING_QUERY_EVOLUTION_ERROR",
        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
        # The program or its settings.
        "DATA_SOURCE_NOT_FOUND",
        "DATA_SOURCE_PUSHDOWN_DISABLED",
        "DATA_SOURCE_RETURN_SCHEMA_MISMATCH",
    }
)
"""Spark's names of errors that come again, however often a query is started."""
_CHECKPOINT_OF_ANOTHER: Final = "assertion failed: There are ["
"""So many sources in the checkpoint, another number in the query; Spark has no name for it."""
_SPARK_IS_GONE: Final = ("stopped SparkContext", "SparkContext was shut down")


def job_error(error: BaseException) -> SparkJobError | None:
    """The error of this room behind a Spark error, as a task or the driver's worker raised it."""
    if isinstance(error, SparkJobError):
        return error
    for module, name, sentence in reversed(_OURS.findall(_text(error))):
        kind = getattr(_module(module), name, None)
        if isinstance(kind, type) and issubclass(kind, SparkJobError):
            # Made without its own __init__, which may want more than the sentence.
            return kind.__new__(kind, _SUFFIX.sub("", sentence))
    return None


def sentence_of(error: BaseException) -> str:
    """What is wrong, on one line, without the traces."""
    ours = job_error(error)
    if ours is not None:
        return str(ours)
    text = _SUFFIX.sub("", _CALL.sub("", _PREFIX.sub("", _text(error))))
    for end in _ENDS:
        text = text.partition(end)[0]
    raised = _PYTHON.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = raised[-1] if raised else (lines[0] if lines else type(error).__name__)
    if _UNANSWERED.fullmatch(line) or isinstance(error, spark_errors()[2]):
        return _JAVA_ENDED
    if line.startswith(_WAITED):
        line = _cause_of(error) or line
    if line.startswith(_LATE):
        return _TOO_BUSY
    if len(line) > _SENTENCE_CHARS_MAX:
        line = f"{line[:_SENTENCE_CHARS_MAX]}…"
    return line if line.endswith((".", "…", "!")) else f"{line}."


def needs_change(error: BaseException) -> bool:
    """Whether the job, its settings or its checkpoint must be changed before it can run."""
    ours = job_error(error)
    if ours is not None:
        return not ours.restart_helps
    text = _text(error)
    conditions = set(_CONDITION.findall(text))
    if conditions & _NEEDS_CHANGE or _CHECKPOINT_OF_ANOTHER in text:
        return True
    # A data source that raised is told as an analysis that failed, whatever it had met with.
    return "PYTHON_DATA_SOURCE_ERROR" not in conditions and any(map(_is_refusal, _causes(error)))


def spark_is_gone(error: BaseException) -> bool:
    """Whether no query can run in this process any more: Java has ended, or its context has."""
    _, java, network = spark_errors()[:3]
    if isinstance(error, network | ConnectionError):
        return True
    is_spark = isinstance(error, java) or type(error).__module__.startswith("pyspark.")
    text = _text(error).strip()
    is_unanswered = _UNANSWERED.fullmatch(text) is not None
    return is_spark and (is_unanswered or any(sign in text for sign in _SPARK_IS_GONE))


def spark_errors() -> tuple[type[Exception], ...]:
    """What calls into Spark raise: its errors, Java's, and that of a Java that is gone; ours."""
    from py4j.protocol import (  # type: ignore[import-untyped]
        Py4JError,
        Py4JNetworkError,
    )
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, Py4JNetworkError, ConnectionError, SparkJobError


def said_by(error: BaseException) -> str:
    """The text of any error. Java's own ask Java for theirs, which may be gone by now."""
    try:
        return str(error)
    except spark_errors():
        return str(getattr(error, "errmsg", "") or type(error).__name__)


def _text(error: BaseException) -> str:
    # A captured error has its message apart from Java's trace.
    return _PLAN.split(str(getattr(error, "_desc", None) or said_by(error)), 1)[0]


def _cause_of(error: BaseException) -> str | None:
    """What Java's trace ends with: the last cause is what happened."""
    found = _CAUSE.findall(str(getattr(error, "_stackTrace", None) or said_by(error)))
    return _SUFFIX.sub("", found[-1].strip()) if found else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = getattr(found, "_cause", None)


def _is_refusal(error: BaseException) -> bool:
    from pyspark.errors import (
        AnalysisException,
        IllegalArgumentException,
        UnsupportedOperationException,
    )

    refusals = AnalysisException, IllegalArgumentException, UnsupportedOperationException
    return isinstance(error, refusals)


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ImportError:
        return None
