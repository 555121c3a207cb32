"""Where our connector does otherwise than Spark's own, and why.

Each pattern is matched against a line of the comparison: kind, case, what both did.
"""

import re
from collections.abc import Iterable
from typing import Final

KNOWN: Final[tuple[tuple[str, str], ...]] = (
    (
        r"^batch, transactions, default isolation: ",
        "read_committed unless told otherwise: aborted records are not data",
    ),
    (
        r"^batch, the tasks as they come: tasks: ",
        "tasks are made by bytes, so small partitions share one",
    ),
    (
        r"^batch, maxRecordsPerPartition: tasks: ",
        "the official connector overlooks the option up to the end of a topic",
    ),
)

LAXER: Final[dict[str, str]] = {}
"""What only the official connector refuses, and why ours does it."""

STRICTER: Final = {
    "batch, an unknown partition": "the official connector reads nothing, and says nothing",
}
"""What only ours refuses, and why."""


def unexplained(lines: Iterable[str]) -> list[str]:
    """The differences that no row of the table explains."""
    return [line for line in lines if not any(re.search(row[0], line) for row in KNOWN)]
