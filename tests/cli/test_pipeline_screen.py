"""What `pipeline run` and `pipeline status` show fits the terminal; nothing is torn."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from barnabas.cli.columns import Column, fitting, folded, lines
from barnabas.cli.pipeline_lag import Lag
from barnabas.cli.pipeline_screen import _table
from barnabas.cli.pipeline_status import Found, text
from barnabas.spark.pipelines.lock import Holder
from barnabas.spark.pipelines.status import QueryStatus, Status

NAMES = ("per_page", "all_the_clicks", "dead-letter-clicks")
QUERIES = {
    name: QueryStatus(
        name, f"clicks.{name}", "restarting", batch_ms=12_345, input_rate=12_345.0,
        output_rate=1_234.0, lag=60_000, state_rows=123_456, state_bytes=45_678_901,
        restarts=12, input_total=12_345_678, output_total=1_234_567,
    )
    for name in NAMES
}  # fmt: skip
STATUS = Status(
    "clicks", "clicks.yaml", "running", "2026-11-16T09:00:00Z",
    master="spark://127.0.0.1:7077", drivers=12, updated="2026-11-16T09:30:00Z", queries=QUERIES,
)  # fmt: skip
RUN = ["query", "state", "in/s", "out/s", "rows in", "rows out", "lag", "batch", "keeps"]
SEEN = ["query", "state", "in/s", "out/s", "lag", "behind", "batch", "keeps", "restarts"]


def titles(line: str) -> list[str]:
    return [title for title in line.split("  ") if title.strip()]


def run_screen(width: int) -> list[str]:
    """As rich puts it on a terminal of that width."""
    console = Console(width=width, file=io.StringIO())
    with console.capture() as printed:
        console.print(_table(STATUS, width))
    return printed.get().splitlines()


def status_screen(width: int | None) -> list[str]:
    pipeline: Any = SimpleNamespace(name="clicks", file="clicks.yaml")
    holder = Holder(12_345, "a-long-name-of-a-machine", STATUS.run)
    lags = {each.group: Lag(60_000, 3_700.0) for each in QUERIES.values()}
    return text(Found(pipeline, holder, STATUS, list(QUERIES.values()), lags), width).splitlines()


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_run_fits_its_terminal(width: int) -> None:
    title, head, *rows = run_screen(width)
    assert title.strip() == "clicks: running"
    assert len(rows) == len(NAMES)
    assert all(len(line.rstrip()) <= width for line in (head, *rows))
    shown = [each.strip() for each in titles(head)]
    assert shown == [each for each in RUN if each in shown]
    assert {"query", "state", "rows out", "lag"} <= set(shown)


def test_names_and_numbers_are_whole_at_80_columns() -> None:
    for screen in (run_screen(80), status_screen(80)):
        assert all(any(name in line for line in screen) for name in NAMES)
        assert all(any("60,000" in line for line in screen if name in line) for name in NAMES)
        assert "…" not in "\n".join(screen)


def test_a_wide_terminal_shows_all_of_it() -> None:
    assert [each.strip() for each in titles(run_screen(200)[1])] == RUN
    head = next(line for line in status_screen(None) if line.startswith("query"))
    assert [each.strip() for each in titles(head)] == SEEN


@pytest.mark.parametrize("width", [80, 60])
def test_a_status_fits_its_terminal(width: int) -> None:
    screen = status_screen(width)
    assert all(len(line) <= width for line in screen)
    head = next(line for line in screen if line.startswith("query"))
    assert {"query", "state", "lag"} <= {each.strip() for each in titles(head)}
    facts = " ".join(" ".join(screen).split())
    assert "process 12345 on a-long-name-of-a-machine" in facts
    assert "last word 2026-11-16T09:30:00Z" in facts


def test_what_matters_least_goes_first_and_names_last() -> None:
    name = Column("name", ["a-very-long-name"])
    size = Column("size", ["1,000 rows"], short=["1,000"], is_number=True)
    assert lines(fitting([name, size], 28, ["size"])) == [
        "name                    size",
        "a-very-long-name  1,000 rows",
    ]
    assert lines(fitting([name, size], 27, ["size", "size"])) == [
        "name               size",
        "a-very-long-name  1,000",
    ]
    assert lines(fitting([name, size], 22, ["size", "size"])) == ["name", "a-very-long-name"]
    assert lines(fitting([name, size], 12, ["size", "size"])) == ["name", "a-very…-name"]


@given(st.lists(st.text("ab", min_size=1, max_size=9), max_size=9), st.integers(9, 40))
def test_facts_stay_whole_and_in_order(facts: list[str], width: int) -> None:
    found = folded(facts, width)
    assert all(len(line) <= width for line in found)
    assert [fact for line in found for fact in line.split("  ")] == facts
