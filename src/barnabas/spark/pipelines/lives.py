"""Every query of a pipeline, kept running side by side; what one can not get over ends them all."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.deaths import job_error, needs_change, spark_errors, spark_is_gone
from barnabas.spark.errors import UnavailableError
from barnabas.spark.job import FAILED, NEEDS_CHANGE
from barnabas.spark.pipelines.events import Teller
from barnabas.spark.pipelines.lock import now
from barnabas.spark.pipelines.order import Order
from barnabas.spark.pipelines.progress import Meter
from barnabas.spark.pipelines.reporting import Reporter
from barnabas.spark.pipelines.state import State
from barnabas.spark.pipelines.status import Phase, QueryStatus
from barnabas.spark.pipelines.troubles import disk_trouble, told, write_down
from barnabas.spark.pipelines.written import check_unwritten
from barnabas.spark.supervisor import Death, keep_running

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from barnabas.spark.pipelines.queries import Query

GIVEN_UP: Final = 69
"""EX_UNAVAILABLE of sysexits.h: it was tried as often as it was allowed."""
_LOOK_S: Final = 0.2
_REPORT_S: Final = 1.0
_STOPPED_S: Final = 1.0
"""Until a query that somebody has stopped is started again."""
_DEATHS_MAX: Final = 3
"""Of one query, one after the other, in one Spark: then a new one is tried. What Spark stumbles
over may be in its own memory, and no query of it would ever run again."""


class _WornOutError(Exception):
    """Spark's own errors keep a query from getting on: perhaps another Spark has better luck."""


class _Life:
    """One query, and the threads that look after it."""

    def __init__(self, query: "Query", status: QueryStatus) -> None:
        self.query = query
        self.status = status
        self.meter = Meter(status)
        self.running: StreamingQuery | None = None
        self.has_lived = False
        self.turn = threading.Lock()
        self.thread: threading.Thread | None = None

    def begin(self) -> bool:
        """Whether it lived before: that query has told all, and looked at again counts twice."""
        with self.turn:
            lived, self.has_lived, self.running = self.has_lived, True, None
            self.meter.begin_life()
            return lived

    def look(self) -> None:
        """Take in its progress, if Spark is there to tell."""
        with self.turn, contextlib.suppress(*spark_errors()):
            if self.running is not None:
                self.meter.look(self.running)


class Lives:
    """All of them."""

    def __init__(
        self,
        order: Order,
        queries: Sequence["Query"],
        state: State,
        reporter: Reporter,
        teller: Teller,
        rebuild: "Callable[[Query], Query]",
    ) -> None:
        """`rebuild` gives a query as it is to be started again."""
        self._order = order
        self._pipeline = order.pipeline
        self._state = state
        self._reporter = reporter
        self._teller = teller
        self._rebuild = rebuild
        self._lives = [_Life(each, reporter.query(each.name, each.group)) for each in queries]
        self._failure: tuple[str, Exception] | None = None
        self._turn = threading.Lock()

    def run(self, stop: threading.Event) -> int:
        """Until each has ended, `stop` is set, or one can not go on; the exit code."""
        self._reporter.phase("running")
        for life in self._lives:
            life.thread = threading.Thread(
                target=self._keep, args=(life, stop), name=life.query.name, daemon=True
            )
            life.thread.start()
        self._watch(stop)
        return self._end(stop)

    def _watch(self, stop: threading.Event) -> None:
        reported_s = 0.0
        while any(life.thread is not None and life.thread.is_alive() for life in self._lives):
            # A signal is heard only between two waits of the main thread, so they are short.
            if stop.is_set():
                time.sleep(_LOOK_S)
            else:
                stop.wait(_LOOK_S)
            if time.monotonic() - reported_s >= _REPORT_S:
                self._report()
                reported_s = time.monotonic()

    def _report(self) -> None:
        for life in self._lives:
            life.look()
        self._reporter.write()

    def _end(self, stop: threading.Event) -> int:
        for life in self._lives:
            life.look()
        if self._failure is None:
            self._reporter.phase("stopped" if stop.is_set() else "done")
            return 0
        name, error = self._failure
        reason = _why_another(name, error)
        if reason is not None:
            self._reporter.phase("restarting", reason)
            self._teller.tell("note", reason)
            return FAILED
        sentence = told(self._pipeline, name, error)
        self._reporter.phase("failed", sentence)
        self._teller.tell("failed", sentence, query=name)
        return NEEDS_CHANGE if needs_change(error) else GIVEN_UP

    def _keep(self, life: _Life, stop: threading.Event) -> None:
        """In a thread: life after life of one query."""
        try:
            self._live(life, stop)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the pipeline
            with self._turn:
                self._failure = self._failure or (life.query.name, error)
            life.status.phase = "failed"
            stop.set()
            return
        life.look()
        ended: Phase = "stopped" if stop.is_set() else "done"
        life.status.phase = ended
        self._teller.tell(ended, query=life.query.name)

    def _live(self, life: _Life, stop: threading.Event) -> None:
        while True:
            keep_running(
                lambda: self._start(life),
                restarts=self._order.restarts,
                stop=stop,
                on_death=lambda death: self._died(life, death),
            )
            if self._order.once or stop.is_set():
                return
            # Somebody else has stopped it, and nobody asked us to end.
            self._teller.tell(
                "died", "It was stopped, and is started again.", query=life.query.name
            )
            stop.wait(_STOPPED_S)

    def _start(self, life: _Life) -> "StreamingQuery":
        name = life.query.name
        generation = self._state.query(name).generation
        self._state.check_checkpoint(name)
        if not self._state.has_begun(name):
            check_unwritten(life.query, generation)
        if life.begin():
            with self._turn:
                life.query = self._rebuild(life.query)
        _activate(life.query)
        running: Any = life.query.start(
            self._state.checkpoint(name), generation, self._order.once, self._pipeline.trigger
        )
        try:
            self._state.keep_id(name, running.id)
        except OSError as problem:
            running.stop()
            raise UnavailableError(f"{self._state.folder}: {problem.strerror}.") from problem
        with life.turn:
            life.running = running
        life.status.phase, life.status.started = "running", now()
        self._teller.tell("started", query=name)
        return running  # type: ignore[no-any-return]

    def _died(self, life: _Life, death: Death) -> None:
        life.look()
        write_down(death.error)
        sentence = told(self._pipeline, life.query.name, death.error)
        life.status.error, life.status.error_at = sentence, now()
        if death.pause_s is None:
            return
        life.status.phase = "restarting"
        life.status.restarts += 1
        more = f"{sentence} It is started again in {death.pause_s:g} s."
        self._teller.tell("died", more, query=life.query.name)
        self._reporter.write()
        if death.restarts + 1 >= _DEATHS_MAX and self._may_renew(life, death.error):
            raise _WornOutError from death.error

    def _may_renew(self, life: _Life, error: Exception) -> bool:
        """Whether another Spark is tried. Not when the broker or a disk is the matter: for those it
        is waited here. And not when attempts are counted: those are of this one."""
        disk = disk_trouble(self._pipeline, life.query.name, error)
        return self._order.restarts is None and job_error(error) is None and disk is None


def _activate(query: "Query") -> None:
    """Spark looks for Python's data sources in the session of the thread that starts a query."""
    session: Any = query.frame.sparkSession
    sessions = type(session)._get_j_spark_session_class(session._jvm)
    sessions.setActiveSession(session._jsparkSession)


def _why_another(name: str, error: Exception) -> str | None:
    """Why only a new driver can mend it; None when that would not help."""
    if isinstance(error, _WornOutError):
        return f"{name} has died {_DEATHS_MAX} times without getting on: Spark is started anew."
    if any(each is not None and spark_is_gone(each) for each in (error, error.__cause__)):
        return "Spark has ended under its queries."
    return None
