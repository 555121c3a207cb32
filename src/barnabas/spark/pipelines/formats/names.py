"""The columns that every topic brings, and those that exist only while rows are decoded."""

from typing import Final

KEY: Final = "_key"
TOPIC: Final = "_topic"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
HEADERS: Final = "_headers"

METADATA: Final = (KEY, TOPIC, PARTITION, OFFSET, TIMESTAMP, HEADERS)
"""What a row of a topic has besides the columns of its value."""

INNER: Final = "__barnabas_"
"""Begins the names of columns that nobody sees; schemas may not have such."""
RAW_KEY: Final = f"{INNER}key"
RAW_VALUE: Final = f"{INNER}value"
DECODED: Final = f"{INNER}decoded"
PROBLEM: Final = f"{INNER}problem"
"""Why a row is none: a text, null where nothing is wrong."""
END: Final = f"{INNER}end"
"""What we write behind a value, to see that parsers came to its very end."""
BAD: Final = f"{INNER}bad"

_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp")


def source_columns(*, headers: bool = True) -> tuple[str, ...]:
    """Which columns of the source `decode` wants: its options `columns` and `includeHeaders`.

    Headers cost time on their way from Python even where there are none. Without them rows have no
    column `_headers`; the query of dead letters needs them always, to hand the original ones on.
    """
    return (*_COLUMNS, "headers") if headers else _COLUMNS
