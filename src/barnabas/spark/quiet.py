"""Spark without its talk: a person sees the command's own words, and a file has the rest.

Two things talk. Spark's log is told by settings where to go; but Java, its launcher and Python
workers write to the output they inherit, before and beside any log.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from barnabas.spark.errors import SparkJobError

_TO_A_FILE: Final = Path(__file__).with_name("quiet.properties")
_NOWHERE: Final = Path(__file__).with_name("quiet-off.properties")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_STREAMS: Final = (1, 2)
_PRINTERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_SAID_MAX: Final = 8192
_NOT_THE_CAUSE: Final = re.compile(
    r"\s+at |WARNING: |\S+( \S+)? WARN |Using Spark's|Setting default|To adjust|$"
)
"""Lines that say nothing about why Java ended."""
_THROWN: Final = re.compile(r'Exception in thread "main" (?:[\w.$]+: )?')


def quiet_settings(log_file: str | None = None, *, java_options: str = "") -> dict[str, str]:
    """Settings with which Spark's log goes to a file (three of 10 MB at most), or nowhere.

    They must be there before Java starts. `java_options` are a person's own, of the same setting.
    """
    options = [f"-Dlog4j2.configurationFile={(_TO_A_FILE if log_file else _NOWHERE).as_uri()}"]
    if log_file:
        options.append(f"-Dbarnabas.spark.log={_quoted(os.path.abspath(log_file))}")
    return {
        _JAVA_OPTIONS: " ".join([*options, *([java_options] if java_options else [])]),
        # A bar that Spark draws over whatever else is on the screen.
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def quiet_start(log_file: str | None = None) -> Iterator[None]:
    """While Java starts within: what it and all its children write goes to the file, or nowhere.

    For as long as they live. This process itself has its output and its errors back at the end;
    what a thread of it writes meanwhile goes there, too. SparkJobError if Java does not start, with
    what it said.
    """
    heard: IO[bytes] = open(log_file, "ab") if log_file else tempfile.TemporaryFile()  # noqa: SIM115
    with heard:
        begin = heard.seek(0, os.SEEK_END)
        # Why a Java could not start at all it says on its standard output.
        ours = {stream: os.dup(stream) for stream in _STREAMS}
        for stream in _STREAMS:
            os.dup2(heard.fileno(), stream)
        try:
            yield
        except RuntimeError as error:
            # PySpark's error of a Java that has ended; those of Spark itself are told elsewhere.
            if "JAVA_GATEWAY_EXITED" not in str(error):
                raise
            raise SparkJobError(_ended(_said(heard, log_file, begin))) from error
        finally:
            for stream, kept in ours.items():
                os.dup2(kept, stream)
                os.close(kept)
    _hush_python()


def _hush_python() -> None:
    """PySpark prints each error of a query before it raises it, as JSON with Java's trace."""
    from pyspark.logger import PySparkLogger

    for name in _PRINTERS:
        PySparkLogger.getLogger(name).disabled = True


def _said(heard: IO[bytes], log_file: str | None, begin: int) -> str:
    if log_file:
        with open(log_file, "rb") as file:
            file.seek(begin)
            return file.read(_SAID_MAX).decode(errors="replace")
    heard.seek(begin)
    return heard.read(_SAID_MAX).decode(errors="replace")


def _ended(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if not _NOT_THE_CAUSE.match(line)]
    why = "; ".join(_THROWN.sub("", line).rstrip(".") for line in lines[:2]) or "without a word"
    return f"Java ended before Spark could start ({why}): check its master and its settings."


def _quoted(path: str) -> str:
    """As Spark's launcher splits options: like a shell, quotes and backslashes included."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
