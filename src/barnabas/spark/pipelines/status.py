"""What is known of a run: `status.json` in the state folder, which the driver keeps up to date.

Whoever looks at it also asks the lock: a driver that was killed could not say so here.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, TypeVar

FILE: Final = "status.json"
_TEMPORARY: Final = ".status.json.tmp"
"""One name, so that drivers that are killed again and again leave one such file, not many."""

Phase = Literal["starting", "running", "restarting", "stopped", "done", "failed"]
Offsets = dict[str, dict[str, int]]
"""By topic and partition."""


@dataclass(slots=True)
class SourceStatus:
    """One stream that a query reads."""

    description: str
    """Its topics; what Spark calls it where it is none."""
    end: Offsets | None = None
    """Read up to here; None where it is no topic."""
    latest: Offsets | None = None


@dataclass(slots=True)
class QueryStatus:
    """One query. None is what nobody knows (yet)."""

    name: str
    group: str
    phase: Phase = "starting"
    started: str | None = None
    """Its present life."""
    batch: int | None = None
    batch_ms: int | None = None
    batch_at: str | None = None
    """When the newest batch had begun."""
    input_rows: int | None = None
    """Of the newest batch, as are the output's."""
    output_rows: int | None = None
    input_rate: float | None = None
    """Rows a second over the last while, as is the output's."""
    output_rate: float | None = None
    lag: int | None = None
    """Records, as they were when the newest batch was planned."""
    state_rows: int | None = None
    state_bytes: int | None = None
    watermark: str | None = None
    late_rows: int = 0
    """That came behind the watermark and were left out, in all its lives."""
    sources: list[SourceStatus] = field(default_factory=list)
    restarts: int = 0
    """In all its lives, within this run."""
    error: str | None = None
    """What it last died of."""
    error_at: str | None = None
    batches_total: int = 0
    input_total: int = 0
    output_total: int | None = None
    """Totals go on from run to run, until the query is reset."""
    generation: int = 1


@dataclass(slots=True)
class Status:
    """One pipeline."""

    pipeline: str
    file: str
    phase: Phase = "starting"
    run: str = ""
    """When the whole run began, as the lock says it, through all restarts of its driver."""
    pid: int = 0
    """The driver's."""
    master: str = ""
    once: bool = False
    started: str = ""
    """The driver."""
    drivers: int = 1
    """How many were started in this run."""
    updated: str = ""
    sentence: str | None = None
    """Why it failed."""
    queries: dict[str, QueryStatus] = field(default_factory=dict)
    """Of this run."""
    earlier: dict[str, QueryStatus] = field(default_factory=dict)
    """As runs before it left them: one that is refused has no queries, and forgets nothing."""

    def known(self) -> dict[str, QueryStatus]:
        """The last word of each query, of whatever run."""
        return self.earlier | self.queries

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def write(state: str, status: Status) -> None:
    """Put it in the place of the one before, whole. May raise OSError.

    It is not waited for until it is on the disk: the next one comes in a second.
    """
    temporary = os.path.join(state, _TEMPORARY)
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(status.as_object(), file, ensure_ascii=False)
        file.write("\n")
    os.replace(temporary, os.path.join(state, FILE))


def read(state: str) -> Status | None:
    """The last word of the last run; None when there was none, or nobody can read it."""
    try:
        with open(os.path.join(state, FILE), encoding="utf-8") as file:
            said = json.load(file)
        status = _made(Status, said)
        status.queries = {name: _query(each) for name, each in said["queries"].items()}
        earlier = said.get("earlier", {})
        status.earlier = {name: _query(each) for name, each in earlier.items()}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        # It is for people to look at, and written anew every second: nothing depends on it.
        return None
    return status


def _query(said: Mapping[str, Any]) -> QueryStatus:
    query = _made(QueryStatus, said)
    query.sources = [_made(SourceStatus, each) for each in said["sources"]]
    return query


_Made = TypeVar("_Made")


def _made(kind: type[_Made], said: Mapping[str, Any]) -> _Made:
    """Without what another version has written there and this one does not know."""
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: value for key, value in said.items() if key in known})
