"""Keeping a query running: it is started again when it died, unless that can not help."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.spark.deaths import (
    job_error,
    needs_change,
    sentence_of,
    spark_errors,
    spark_is_gone,
)
from barnabas.spark.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG: Final = logging.getLogger("barnabas.spark")
_LOOK_S: Final = 0.2
"""How often a query is asked whether it lives: what an end by itself is noticed late by."""

_GONE: Final = (
    "Spark has ended under its query: start the job again, or run it with "
    "`barnabas spark-run --restarts`, which does so."
)


class Death(NamedTuple):
    """A query that died, and what becomes of it."""

    sentence: str
    error: Exception
    restarts: int
    """How often it was started again since it last got on."""
    pause_s: float | None
    """Until it is started again; None when it is given up."""


class Pauses:
    """Ever longer pauses between attempts."""

    def __init__(self, first_s: float = 1.0, longest_s: float = 60.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self.taken = 0

    def next(self) -> float:
        """Twice as long as the one before."""
        # The exponent is bounded, or floats would overflow after a thousand attempts.
        pause = min(self._longest_s, self._first_s * 2.0 ** min(self.taken, 64))
        self.taken += 1
        return pause

    def reset(self) -> None:
        """What was attempted has worked."""
        self.taken = 0


def keep_running(
    start: Callable[[], "StreamingQuery"],
    *,
    restarts: int | None = None,
    first_pause_s: float = 1.0,
    longest_pause_s: float = 60.0,
    healthy_after_s: float = 300.0,
    stop: threading.Event | None = None,
    on_death: Callable[[Death], None] | None = None,
    told: Callable[[Exception], str] = sentence_of,
    sleep: Callable[[float], object] | None = None,
) -> "StreamingQuery | None":
    """Run the query that `start()` starts until it ends by itself or is stopped.

    A query that dies is started again, after a pause that doubles up to `longest_pause_s` and is
    short again once a new batch was finished, or it lived for `healthy_after_s`. `restarts` bounds
    how often that happens without such a success in between (None: no bound).

    What a restart can not mend is raised at once, as is the last death when `restarts` are used up:
    as the error of `barnabas.spark.errors` that a task raised, or else as Spark's. That is the
    case for wrong options, unknown topics, lost data, two tasks on one partition, a checkpoint
    of another query, a newer run of the same query, and when Spark itself has ended (then
    `barnabas spark-run --restarts` helps, which starts the whole driver again).

    SIGTERM, Ctrl-C and `stop` stop the query; its unfinished batch is done again at the next
    start. Signals are heard only in the main thread. Each death is one line in the log
    `barnabas.spark`, whose sentence is made by `told`, and `on_death` gets it too. `sleep` stands
    in for the pauses in tests.

    Returns the last query; None when it was stopped before the first could be started.
    """
    pauses = Pauses(first_pause_s, longest_pause_s)
    keeper = _Keeper(start, restarts, pauses, healthy_after_s, stop or threading.Event())
    keeper.on_death = on_death
    keeper.told = told
    keeper.sleep = sleep or keeper.stop.wait
    with signals_setting(keeper.stop):
        return keeper.run()


@contextmanager
def signals_setting(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C set `stop` meanwhile; a second one interrupts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(_number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Keeper:
    """The lives of one query."""

    on_death: Callable[[Death], None] | None = None
    told: Callable[[Exception], str]
    sleep: Callable[[float], object]

    def __init__(
        self,
        start: Callable[[], "StreamingQuery"],
        restarts: int | None,
        pauses: Pauses,
        healthy_after_s: float,
        stop: threading.Event,
    ) -> None:
        self.stop = stop
        self._start = start
        self._restarts = restarts
        self._pauses = pauses
        self._healthy_after_s = healthy_after_s
        self._query: StreamingQuery | None = None
        self._finished = -1
        """The newest batch that any life finished."""
        self._name = "The query"

    def run(self) -> "StreamingQuery | None":
        """Life after life."""
        while not self.stop.is_set():
            began = time.monotonic()
            error = self._live()
            if error is None:
                break
            if spark_is_gone(error):
                raise UnavailableError(_GONE) from error
            if time.monotonic() - began >= self._healthy_after_s or self._got_on():
                self._pauses.reset()
            if needs_change(error) or self._pauses.taken == self._restarts:
                self._give_up(error)
            self._pause(error)
        return self._query

    def _live(self) -> Exception | None:
        """Start it and wait; what it died of, None when it ended or was stopped."""
        try:
            query = self._query = self._start()
            self._name = f"Query {query.name}" if query.name else "The query"
            while query.isActive:
                if self.stop.wait(_LOOK_S):
                    query.stop()
                    return None
            return _what_killed(query)
        except spark_errors() as error:
            return error

    def _got_on(self) -> bool:
        """Whether it finished a batch that no life before it had finished."""
        try:
            recent: list[Any] = self._query.recentProgress if self._query is not None else []
        except spark_errors() as gone:
            # It died of something else, or so it seemed: of a Java that was about to end.
            raise UnavailableError(_GONE) from gone
        # Progress is also told of idle moments, which did not add any batch.
        batches = [each.batchId for each in recent if "addBatch" in each.durationMs]
        before, self._finished = self._finished, max([self._finished, *batches])
        return self._finished > before

    def _pause(self, error: Exception) -> None:
        restarts = self._pauses.taken
        death = Death(self.told(error), error, restarts, self._pauses.next())
        _LOG.warning(
            "%s died: %s It is started again in %g s.",
            self._name,
            death.sentence,
            death.pause_s,
        )
        if self.on_death is not None:
            self.on_death(death)
        self.sleep(death.pause_s or 0.0)

    def _give_up(self, error: Exception) -> None:
        death = Death(self.told(error), error, self._pauses.taken, None)
        _LOG.error("%s died: %s", self._name, death.sentence)
        if self.on_death is not None:
            self.on_death(death)
        ours = job_error(error)
        if ours is None or ours is error:
            raise error
        raise ours from error


def _what_killed(query: "StreamingQuery") -> Exception | None:
    """What it died of; asked twice, for it takes hundreds of calls and any line may be cut.

    If Java is still there, the next call opens another.
    """
    try:
        return query.exception()
    except spark_errors() as error:
        if not spark_is_gone(error):
            raise
        return query.exception()
