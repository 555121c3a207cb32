"""Which options of Spark's formats mean something for single records; others are refused.

Spark ignores options that it does not know, so that a misspelt one would go unnoticed.
"""

from collections.abc import Mapping
from typing import Final, Literal

from barnabas.spark.pipelines.formats.refusals import did_you_mean
from barnabas.spark.pipelines.places import At, PipelineError

_TIMES: Final = frozenset({"dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone"})
_CSV: Final = frozenset(
    {
        "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "nullValue",
        "emptyValue", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace",
    }
)  # fmt: skip

_KNOWN: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("source", "json"): _TIMES
    | {
        "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes",
        "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter",
        "allowUnquotedControlChars", "allowNonNumericNumbers", "enableDateTimeParsingFallback",
        "locale", "maxNestingDepth", "maxNumLen", "maxStringLen",
    },
    ("source", "csv"): _TIMES
    | _CSV
    | {
        "nanValue", "positiveInf", "negativeInf", "locale", "maxColumns",
        "unescapedQuoteHandling", "enableDateTimeParsingFallback",
    },
    ("sink", "json"): _TIMES | {"ignoreNullFields", "pretty", "writeNonAsciiCharacterAsCodePoint"},
    ("sink", "csv"): _TIMES | _CSV | {"escapeQuotes", "quoteAll"},
}  # fmt: skip

_WHY_NOT: Final = {
    "header": "a record has no header line: name the columns in schema",
    "mode": "what does not fit goes to dead_letter",
    "columnnameofcorruptrecord": "what does not fit goes to dead_letter",
    "multiline": "a record is one value, however many lines it has",
    "linesep": "a record is one value, however many lines it has",
    "encoding": "the text of records is UTF-8",
    "charset": "the text of records is UTF-8",
    "inferschema": "name the columns in schema",
    "comment": "a record is no comment",
}


def check_options(
    at: At, where: str, side: Literal["source", "sink"], form: str, options: Mapping[str, str]
) -> None:
    """PipelineError for an option that this format does not have."""
    known = _KNOWN.get((side, form), frozenset())
    names = {name.lower() for name in known}
    for name in options:
        if name.lower() in names:
            continue
        if name.lower() in _WHY_NOT:
            raise PipelineError(
                at, f"{where}.options has {name}, but {_WHY_NOT[name.lower()]}: leave it out."
            )
        if not known:
            raise PipelineError(at, f"{where}.options: {form} has no options: leave {name} out.")
        hint = did_you_mean(name, known)
        raise PipelineError(at, f"{where}.options has no {name} for {form}: {hint}")


def option(options: Mapping[str, str], *names: str) -> str | None:
    """What an option says, in whatever case its name is written."""
    given = {name.lower(): value for name, value in options.items()}
    return next((given[name.lower()] for name in names if name.lower() in given), None)
