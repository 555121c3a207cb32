"""What can be wrong with a question, in a sentence, and where in its text."""

import re
from typing import Final

from barnabas.spark.deaths import job_error, sentence_of
from barnabas.spark.errors import DataLostError, SparkJobError

_PLACE: Final = re.compile(r"\bline (\d+),? (pos|position) (\d+)")
_CONDITION: Final = re.compile(r"^\[[A-Z][A-Z0-9_.]*\]\s*")
_ENDS: Final = re.compile(r"\s*(?:SQLSTATE: \w+|;? ?\(?line \d+,? pos(?:ition)? \d+|\n\n|\n==|;\n)")
_FILE_GONE: Final = ("FILE_NOT_EXIST", "FileNotFoundException")
_LINE_CHARS_MAX: Final = 100


class AskingError(SparkJobError):
    """A question can not be asked, or not be answered."""


def sql_error(error: BaseException, text: str) -> SparkJobError:
    """What Spark has against a question, with the place in its text where it knows that."""
    ours = job_error(error)
    if ours is not None:
        return ours
    said = str(getattr(error, "_desc", None) or error)
    place = _PLACE.search(said)
    if place is None:
        return AskingError(_CONDITION.sub("", sentence_of(error)))
    # The parser and the analyzer count columns from 0, tasks from 1.
    line, column = int(place[1]), int(place[3]) + (place[2] == "pos")
    # A message can have several lines, all about one thing; Spark's plans come after them.
    what = " ".join(_ENDS.split(_CONDITION.sub("", said.strip()), maxsplit=1)[0].split())
    sentence = what if what.endswith((".", "!", "?")) else f"{what}."
    return AskingError(f"Line {line}, column {column}: {sentence}{_shown(text, line, column)}")


def has_vanished(error: BaseException) -> bool:
    """Whether records or files that were there when the question was planned are gone now."""
    ours = job_error(error)
    if ours is not None:
        return isinstance(ours, DataLostError)
    said = str(getattr(error, "_desc", None) or error)
    return any(sign in said for sign in _FILE_GONE)


def _shown(text: str, line: int, column: int) -> str:
    """The line in question, and a caret under the place."""
    lines = text.split("\n")
    if line > len(lines):
        return ""
    begin = max(0, column - _LINE_CHARS_MAX // 2)
    shown = lines[line - 1].replace("\t", " ")[begin : begin + _LINE_CHARS_MAX].rstrip()
    return f"\n  {shown}\n  {' ' * (column - 1 - begin)}^"
