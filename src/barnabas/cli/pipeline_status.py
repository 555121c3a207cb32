"""What `pipeline status` finds, and how it looks."""

import sys
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.columns import Column, fitting, folded, lines, terminal_width
from barnabas.cli.group_show import readable_age
from barnabas.cli.output import print_json
from barnabas.cli.pipeline_lag import Lag, lags
from barnabas.cli.pipeline_words import count, duration, kept, kept_bytes, rate
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.spark.pipelines.definition import Pipeline
    from barnabas.spark.pipelines.lock import Holder
    from barnabas.spark.pipelines.status import QueryStatus, Status

_WATCH_S: Final = 2.0
_CLEAR: Final = "\x1b[H\x1b[2J"
_ALIVE: Final = ("starting", "running", "restarting")
_SPARED: Final = ("keeps", "restarts", "batch", "keeps", "out/s", "in/s", "behind")
"""Columns that a narrow terminal can do without, in this order; `keeps` is shortened first."""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that is known of one pipeline."""

    pipeline: "Pipeline"
    holder: "Holder | None"
    """Who runs it."""
    last: "Status | None"
    """What its driver last said."""
    queries: "list[QueryStatus]"
    lags: dict[str, Lag] = field(default_factory=dict)
    broker_problem: str | None = None

    @property
    def phase(self) -> str:
        """Of the whole pipeline."""
        if self.holder is not None:
            is_of_this_run = self.last is not None and self.last.run == self.holder.since
            return self.last.phase if self.last is not None and is_of_this_run else "starting"
        if self.last is None:
            return "never ran"
        return "killed" if self.last.phase in _ALIVE else self.last.phase

    def phase_of(self, query: "QueryStatus") -> str:
        """Of one query."""
        if self.last is None or query.name not in self.last.known():
            return "never ran"
        if self.phase == "starting":
            return "starting"
        runs = self.holder is not None and query.name in self.last.queries
        return "stopped" if query.phase in _ALIVE and not runs else query.phase

    def lag_of(self, query: "QueryStatus") -> Lag:
        """As the broker tells it; what the query last knew when the broker does not."""
        if self.broker_problem is not None:
            return Lag(query.lag, None)
        return self.lags.get(query.group) or Lag(None, None)


def find(pipeline: "Pipeline") -> Found:
    """Look at the lock, the state folder and the broker."""
    found = find_locally(pipeline)
    try:
        behind = lags(pipeline.servers, [query.group for query in found.queries])
    except BarnabasError as error:
        return replace(found, broker_problem=str(error))
    return replace(found, lags=behind)


def find_locally(pipeline: "Pipeline") -> Found:
    """Without asking the broker."""
    from barnabas.spark.pipelines.lock import holder_of
    from barnabas.spark.pipelines.state import query_names
    from barnabas.spark.pipelines.status import QueryStatus, read

    last = read(pipeline.state)
    before = last.known() if last is not None else {}
    queries = [
        before.get(name) or QueryStatus(name, f"{pipeline.name}.{name}")
        for name in query_names(pipeline)
    ]
    return Found(pipeline, holder_of(pipeline.state), last, queries)


def as_object(found: Found) -> dict[str, Any]:
    """For JSON."""
    holder, last = found.holder, found.last
    return {
        "pipeline": found.pipeline.name,
        "file": found.pipeline.file,
        "state": found.phase,
        "running": holder is not None,
        "since": holder.since if holder is not None else None,
        "pid": holder.pid if holder is not None else None,
        "host": holder.host if holder is not None else None,
        "driver_pid": last.pid if last is not None and holder is not None else None,
        "drivers": last.drivers if last is not None else 0,
        "master": last.master if last is not None else None,
        "updated": last.updated if last is not None else None,
        "sentence": last.sentence if last is not None else None,
        "broker": found.broker_problem,
        "queries": [_query_object(found, query) for query in found.queries],
    }


def _query_object(found: Found, query: "QueryStatus") -> dict[str, Any]:
    lag = found.lag_of(query)
    said = asdict(query)
    del said["phase"]
    return {
        **said,
        "state": found.phase_of(query),
        "lag": lag.records,
        "lag_seconds": lag.seconds,
    }


def text(found: Found, width: int | None) -> str:
    """For a person, in a table that is so wide at most; None: as wide as it likes."""
    said = [*folded(_facts(found), width), *lines(fitting(_columns(found), width, _SPARED))]
    if found.broker_problem is not None:
        said.append(f"{found.broker_problem} The lag is the last one known.")
    if found.phase == "failed" and found.last is not None and found.last.sentence:
        said.append(found.last.sentence)
    else:
        died = [query for query in found.queries if query.error is not None]
        said += [f"Last death, at {query.error_at}: {query.error}" for query in died]
    return "\n".join(said)


def _facts(found: Found) -> list[str]:
    facts = [found.pipeline.name, found.phase]
    last, holder = found.last, found.holder
    if holder is not None:
        facts += [f"since {holder.since}", f"process {holder.pid} on {holder.host}"]
    if last is not None:
        facts += [last.master] if last.master else []
        facts += [f"{last.drivers} drivers started"] if last.drivers > 1 else []
        facts.append(f"last word {last.updated}")
    return facts


def _columns(found: Found) -> list[Column]:
    queries = found.queries
    # What does not run has no rate, whatever it was last.
    living = [each if found.phase_of(each) in _ALIVE else None for each in queries]
    behind = [found.lag_of(each) for each in queries]
    numbers = {
        "in/s": [rate(each.input_rate if each is not None else None) for each in living],
        "out/s": [rate(each.output_rate if each is not None else None) for each in living],
        "lag": [count(lag.records) for lag in behind],
        "behind": ["-" if lag.seconds is None else readable_age(lag.seconds) for lag in behind],
        "batch": [duration(each.batch_ms) for each in queries],
    }
    return [
        Column("query", [each.name for each in queries]),
        Column("state", [found.phase_of(each) for each in queries]),
        *(Column(title, cells, is_number=True) for title, cells in numbers.items()),
        Column("keeps", list(map(kept, queries)), list(map(kept_bytes, queries)), is_number=True),
        Column("restarts", [count(each.restarts) for each in queries], is_number=True),
    ]


def show(pipeline: "Pipeline", *, as_json: bool, watch: bool) -> None:
    """Print it, once or again and again."""
    while True:
        found = find(pipeline)
        if as_json:
            print_json(as_object(found))
        else:
            clear = _CLEAR if watch and sys.stdout.isatty() else ""
            print(f"{clear}{text(found, terminal_width())}")
        if not watch:
            return
        sys.stdout.flush()
        time.sleep(_WATCH_S)
