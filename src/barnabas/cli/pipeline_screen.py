"""What `pipeline run` shows while it runs: a table on a terminal, lines elsewhere, or JSON."""

import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from barnabas.cli.columns import Column, fitting, lines
from barnabas.cli.output import print_json
from barnabas.cli.pipeline_words import count, duration, kept, kept_bytes, rate

if TYPE_CHECKING:
    from barnabas.spark.pipelines.events import Event
    from barnabas.spark.pipelines.status import QueryStatus, Status

Kind = Literal["table", "lines", "json", "quiet"]

_DRAW_S: Final = 0.5
_LINES_S: Final = 10.0
_SPARED: Final = ("keeps", "keeps", "batch", "out/s", "in/s", "rows in")
"""Columns that a narrow terminal can do without, in this order; `keeps` is shortened first."""
_WORDS: Final = {"started": "started.", "stopped": "stopped.", "done": "done."}


class Screen:
    """Shows events as they come, and now and then the numbers from the state folder."""

    def __init__(self, state: str, kind: Kind) -> None:
        self._state = state
        self._kind = kind
        self._live: Any = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="screen", daemon=True)
        self._turn = threading.RLock()
        self._run = ""
        self._shown = ""
        """When the numbers were of that were shown last."""
        self.failures: list[str] = []
        """What must be changed, as the driver told it."""

    def hear(self, event: "Event") -> None:
        """From any thread: something happened."""
        if event["event"] == "failed":
            self.failures.append(str(event.get("sentence")))
        with self._turn, self._somebody_reads():
            if self._kind == "json":
                _print_object({"at": _clock(), **event})
            elif event["event"] != "failed" and self._kind != "quiet":
                self._say(_sentence(event))

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._kind == "table":
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(), auto_refresh=False)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Show the last numbers."""
        self._over.set()
        self._thread.join()
        self._show_numbers()
        if self._live is not None:
            self._live.stop()

    def _follow(self) -> None:
        pause_s = _DRAW_S if self._kind == "table" else _LINES_S
        while not self._over.wait(pause_s):
            self._show_numbers()

    def _show_numbers(self) -> None:
        status = self._status()
        if status is None or self._kind == "quiet" or status.updated == self._shown:
            return
        self._shown = status.updated
        with self._turn, self._somebody_reads():
            if self._kind == "json":
                queries = {name: asdict(query) for name, query in status.queries.items()}
                _print_object({"at": _clock(), "event": "progress", "queries": queries})
            elif self._live is not None:
                self._live.update(_table(status, self._live.console.width), refresh=True)
            else:
                for query in status.queries.values():
                    self._say(_line(query))

    def _status(self) -> "Status | None":
        """Of this run; the file may still be that of the one before."""
        from barnabas.spark.pipelines.lock import holder_of
        from barnabas.spark.pipelines.status import read

        if not self._run:
            holder = holder_of(self._state)
            # Another's run may be why ours is refused.
            self._run = holder.since if holder is not None and holder.pid == os.getpid() else ""
        status = read(self._state)
        return status if status is not None and status.run == self._run != "" else None

    def _say(self, text: str) -> None:
        line = f"{_clock()} {text}"
        if self._live is not None:
            # Brackets in sentences are no markup of rich's.
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, flush=True)

    @contextlib.contextmanager
    def _somebody_reads(self) -> Any:
        """When nobody does any more, that is an end: as of any other command in a pipe."""
        try:
            yield
        except BrokenPipeError:
            self._kind, self._live = "quiet", None
            os.kill(os.getpid(), signal.SIGTERM)


def kind_for(*, as_json: bool, quiet: bool) -> Kind:
    """How it is shown here."""
    if quiet:
        return "quiet"
    if as_json:
        return "json"
    return "table" if sys.stdout.isatty() else "lines"


def _print_object(said: dict[str, Any]) -> None:
    print_json(said)
    sys.stdout.flush()


def _clock() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _sentence(event: "Event") -> str:
    query = event.get("query")
    text = str(event.get("sentence") or _WORDS.get(event["event"], event["event"]))
    # A death names the query itself, with its place in the file.
    return text if query is None or event["event"] == "died" else f"{query}: {text}"


def _line(query: "QueryStatus") -> str:
    parts = [
        f"{query.name}: {query.phase}",
        f"in {rate(query.input_rate)}/s",
        f"out {rate(query.output_rate)}/s",
        f"rows in {count(query.input_total)}",
        f"rows out {count(query.output_total)}",
        f"lag {count(query.lag)}",
        f"batch {duration(query.batch_ms)}",
    ]
    return ", ".join([*parts, *([f"keeps {kept(query)}"] if query.state_rows is not None else [])])


def _table(status: "Status", width: int) -> Any:
    from rich.text import Text

    head, *rows = lines(fitting(_columns(list(status.queries.values())), width, _SPARED))
    title = f"{status.pipeline}: {status.phase}\n"
    return Text.assemble((title, "italic"), (head, "bold"), *(f"\n{row}" for row in rows))


def _columns(queries: "list[QueryStatus]") -> list[Column]:
    numbers = {
        "in/s": [rate(each.input_rate) for each in queries],
        "out/s": [rate(each.output_rate) for each in queries],
        "rows in": [count(each.input_total) for each in queries],
        "rows out": [count(each.output_total) for each in queries],
        "lag": [count(each.lag) for each in queries],
        "batch": [duration(each.batch_ms) for each in queries],
    }
    return [
        Column("query", [each.name for each in queries]),
        Column("state", [each.phase for each in queries]),
        *(Column(title, cells, is_number=True) for title, cells in numbers.items()),
        Column("keeps", list(map(kept, queries)), list(map(kept_bytes, queries)), is_number=True),
    ]
