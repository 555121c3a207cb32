"""What single texts of a pipeline file must look like.

Each check returns how the sentence about the text goes on behind its path, None if all is well.
"""

import re
from typing import Final

from barnabas.model.errors import KafkaError
from barnabas.model.topics import check_topic_name
from barnabas.spark.cluster.connection import parse_servers
from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.problems import meant, shown
from barnabas.spark.pipelines.sql_words import unbalanced
from barnabas.spark.source.subscription import compile_pattern

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SINK: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_PIPELINE: Final = re.compile(r"(?=.*[A-Za-z0-9_-])[A-Za-z0-9._-]{1,100}")
_DOTTED: Final = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_IMPORT: Final = re.compile(f"{_DOTTED}:{_DOTTED}", re.ASCII)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")

_SECONDS: Final = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "week": 604_800.0,
}
_DIGITS_MAX: Final = 12
_LONGEST: Final = 36_500 * 86_400.0


def duration(text: str) -> str | None:
    """An interval as Spark writes it, without the words that differ by calendar."""
    wants = f"wants a duration such as 30 seconds or 5 minutes, and {shown(text)} stands there"
    words = text.split()
    if not words or len(words) % 2:
        return f"{wants}."
    total = 0.0
    for number, word in zip(words[::2], words[1::2], strict=True):
        unit = word.lower().removesuffix("s")
        if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
            return f"{wants}."
        if unit not in _SECONDS:
            return wants + meant(unit, _SECONDS)
        total += int(number) * _SECONDS[unit]
    return None if total <= _LONGEST else f"is longer than a hundred years: {shown(text)}."


def identifier(text: str) -> str | None:
    """A name that SQL can use without quotes."""
    if _IDENTIFIER.fullmatch(text):
        return None
    better = re.sub(r"[^A-Za-z0-9_]+", "_", text, flags=re.ASCII)[:40].strip("_")
    like = f", as in {better}" if _IDENTIFIER.fullmatch(better) else ""
    return f"is no name for SQL: take letters, digits and _{like}."


def sink_name(text: str) -> str | None:
    """A name of a query, of which folders and groups are named."""
    return (
        None if _SINK.fullmatch(text) else "is no name for a sink: take letters, digits, _ and -."
    )


def pipeline_name(text: str) -> str | None:
    """A name of which folders and consumer groups are named."""
    if _PIPELINE.fullmatch(text):
        return None
    return f"wants letters, digits, ., _ and -, a hundred at most, and {shown(text)} stands there."


def topic(text: str) -> str | None:
    """A name that Kafka takes."""
    try:
        check_topic_name(text)
    except KafkaError:
        return (
            f"wants the name of a topic (letters, digits, ., _ and -, 249 at most), and "
            f"{shown(text)} stands there."
        )
    return None


def pattern(text: str) -> str | None:
    """A regular expression that the source takes."""
    try:
        compile_pattern(text)
    except SparkJobError as error:
        reason = shown(str(error.__cause__))
        return f"is no regular expression that is understood ({reason}): {shown(text)}."
    return None


def servers(text: str) -> str | None:
    """`host:port,host:port`."""
    try:
        found = parse_servers(text)
    except SparkJobError:
        found = ()
    return None if found else f"wants host:port,host:port, and {shown(text)} stands there."


def import_path(text: str) -> str | None:
    """`module:function`."""
    if _IMPORT.fullmatch(text):
        return None
    return f"wants module:function, as in rules:score, and {shown(text)} stands there."


def path(text: str) -> str | None:
    """A path of a file system or of anything else that Spark knows by a scheme."""
    if "\0" in text:
        return "has the character U+0000 in it, which no path can have."
    if text.startswith("~"):
        return f"begins with ~, which only shells know: write ${{HOME}}{shown(text[1:] or '/')}."
    return None


def local_path(text: str) -> str | None:
    """A path of a file system, where files can be locked."""
    if _SCHEME.match(text):
        return f"wants a folder of this machine's file systems, and {shown(text)} stands there."
    return path(text)


def has_scheme(text: str) -> bool:
    """Whether it is a path such as `s3a://…`, which is absolute."""
    return _SCHEME.match(text) is not None


def sql(text: str) -> str | None:
    """A piece of SQL; whether it is right is for Spark to say."""
    if not unbalanced(text):
        return None
    return (
        f"has a parenthesis or quote that is not closed: {shown(text)} (in brackets and braces a "
        "text with a comma in it must be quoted)."
    )
