"""How the numbers of a pipeline look, wherever they are shown."""

from typing import TYPE_CHECKING

from barnabas.cli.output import readable_size

if TYPE_CHECKING:
    from barnabas.spark.pipelines.status import QueryStatus


def rate(rows_a_second: float | None) -> str:
    """`0`, `0.4`, `12.5`, `1,500`: rows a second."""
    if rows_a_second is None:
        return "-"
    if rows_a_second >= 100 or rows_a_second == int(rows_a_second):
        return f"{rows_a_second:,.0f}"
    return f"{rows_a_second:.1f}"


def count(number: int | None) -> str:
    """`12,345`."""
    return "-" if number is None else f"{number:,}"


def duration(milliseconds: int | None) -> str:
    """`210 ms`, `3.4 s`."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def kept_bytes(query: "QueryStatus") -> str:
    """The same where there is little room: `4.0 MiB`."""
    return "-" if query.state_rows is None else readable_size(query.state_bytes or 0)


def kept(query: "QueryStatus") -> str:
    """What a query remembers between its batches: `1,200 rows, 4.0 MiB`."""
    if query.state_rows is None:
        return "-"
    rows = "row" if query.state_rows == 1 else "rows"
    return f"{query.state_rows:,} {rows}, {readable_size(query.state_bytes or 0)}"
