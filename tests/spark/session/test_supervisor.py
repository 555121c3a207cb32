"""A query that dies: started again with ever longer pauses, or given up with one sentence."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.session.no_java import MUTE, UNANSWERED, UNREACHABLE

from barnabas.spark import deaths
from barnabas.spark.errors import (
    FencedError,
    SharedPartitionError,
    SparkJobError,
    UnavailableError,
)
from barnabas.spark.supervisor import Death, keep_running

TRACE = """[STREAM_FAILED] Query [id = 84-a, runId = 0e-b] terminated with exception: \
[PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):
  File "/x/sink.py", line 21, in write
    raise {name}("…")
{name}: {sentence}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 84-a, runId = 0e-b]
Current State: ACTIVE"""


def died_of(name: str, sentence: str) -> StreamingQueryException:
    return StreamingQueryException(TRACE.format(name=name, sentence=sentence))


OUTAGE = died_of("ValueError", "an outage")


@dataclass
class Life:
    """A query as `keep_running` sees it: it is over as soon as it is looked at."""

    death: Exception | None = None
    batches: tuple[int, ...] = ()
    name: str | None = "orders"
    looks: int = 0
    stopped: bool = False
    on_look: Callable[[], object] = field(default=lambda: None)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self.on_look()
        self.looks -= 1
        return self.looks >= 0 and not self.stopped

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802 - Spark's name
        idle = SimpleNamespace(batchId=99, durationMs={"latestOffset": 1})
        done = [SimpleNamespace(batchId=each, durationMs={"addBatch": 1}) for each in self.batches]
        return [*done, idle]

    def exception(self) -> Exception | None:
        return self.death

    def stop(self) -> None:
        self.stopped = True


class Lives:
    """One life after the other, and what `keep_running` did in between."""

    def __init__(self, *lives: Life | Exception) -> None:
        self._left = list(lives)
        self.pauses: list[float] = []
        self.deaths: list[Death] = []

    def start(self) -> Any:
        life = self._left.pop(0)
        if isinstance(life, Exception):
            raise life
        return life

    def keep(self, **more: Any) -> Any:
        return keep_running(
            self.start, sleep=self.pauses.append, on_death=self.deaths.append, **more
        )


def test_pauses_double_up_to_the_longest() -> None:
    lives = Lives(*[Life(OUTAGE)] * 6, Life())
    last = lives.keep(first_pause_s=1, longest_pause_s=10)
    assert last.death is None
    assert lives.pauses == [1, 2, 4, 8, 10, 10]
    assert [death.restarts for death in lives.deaths] == [0, 1, 2, 3, 4, 5]


def test_a_new_batch_makes_the_pauses_short_again_and_an_old_one_does_not() -> None:
    dying = [Life(OUTAGE), Life(OUTAGE, (4,)), Life(OUTAGE, (4,)), Life(OUTAGE, (4, 5))]
    lives = Lives(*dying, Life())
    lives.keep()
    assert lives.pauses == [1, 1, 2, 1]


def test_so_does_a_long_life() -> None:
    lives = Lives(Life(OUTAGE), Life(OUTAGE), Life())
    lives.keep(healthy_after_s=0)
    assert lives.pauses == [1, 1]


def test_restarts_are_bounded_and_the_last_death_is_raised() -> None:
    lives = Lives(*[Life(OUTAGE)] * 3)
    with pytest.raises(StreamingQueryException, match="an outage"):
        lives.keep(restarts=2)
    assert lives.pauses == [1, 2]
    assert [death.pause_s for death in lives.deaths] == [1, 2, None]


def test_a_death_is_one_line_of_log(caplog: pytest.LogCaptureFixture) -> None:
    Lives(Life(OUTAGE), Life()).keep()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("barnabas.spark", "WARNING")
    said = "Query orders died: ValueError: an outage. It is started again in 1 s."
    assert record.getMessage() == said


@pytest.mark.parametrize(
    "death",
    [
        died_of("barnabas.spark.errors.SharedPartitionError", "Two met: use to_topic()."),
        died_of("barnabas.spark.errors.FencedError", "A newer run has taken over."),
        died_of("barnabas.spark.errors.SparkJobError", "There is no topic orders: create it."),
        StreamingQueryException("[CONCURRENT_STREAM_LOG_UPDATE] Multiple streaming jobs for 4."),
        StreamingQueryException("assertion failed: There are [1] sources in the checkpoint"),
        AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] The table or view can not be found."),
    ],
)
def test_what_a_restart_can_not_mend_is_raised_at_once(death: Exception) -> None:
    lives = Lives(Life(death))
    kind = type(deaths.job_error(death) or death)
    with pytest.raises(kind):
        lives.keep()
    assert lives.pauses == []


def test_errors_of_tasks_come_back_as_themselves() -> None:
    death = died_of("barnabas.spark.errors.SharedPartitionError", "Two met: use to_topic().")
    with pytest.raises(SharedPartitionError) as raised:
        Lives(Life(death)).keep()
    assert str(raised.value) == "Two met: use to_topic()."
    assert raised.value.__cause__ is death


def test_an_outage_at_the_start_is_waited_for() -> None:
    unplanned = AnalysisException(
        "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
        "barnabas.spark.errors.UnavailableError: No broker answers: start it.\n SQLSTATE: 38000"
    )
    lives = Lives(UnavailableError("Nobody there."), unplanned, Life())
    lives.keep()
    assert [death.sentence for death in lives.deaths] == [
        "Nobody there.", "No broker answers: start it.",
    ]  # fmt: skip


def test_a_mistake_in_the_program_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        keep_running(lambda: 1 // 0)  # type: ignore[arg-type, return-value]


def test_a_java_that_is_gone_ends_it() -> None:
    with pytest.raises(UnavailableError, match="spark-run --restarts"):
        Lives(ConnectionRefusedError(111, "refused")).keep()
    gone = StreamingQueryException("Job 3 cancelled because SparkContext was shut down")
    with pytest.raises(UnavailableError, match="spark-run --restarts"):
        Lives(Life(gone)).keep()


def test_a_java_that_ends_while_a_death_is_looked_into_ends_it_too() -> None:
    class Orphan(Life):
        @property
        def recentProgress(self) -> list[Any]:  # noqa: N802 - Spark's name
            raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(UnavailableError, match="Spark has ended under its query"):
        Lives(Orphan(OUTAGE), Life()).keep()


class Cut(Life):
    """Its line to Java is cut so many times while it is asked what it died of."""

    cuts = 1

    def exception(self) -> Exception | None:
        if self.cuts:
            self.cuts -= 1
            raise UNANSWERED
        return self.death


def test_a_line_to_java_that_is_cut_does_not_hide_what_a_query_died_of() -> None:
    lives = Lives(Cut(OUTAGE), Life())
    lives.keep()
    assert [death.sentence for death in lives.deaths] == ["ValueError: an outage."]


def test_a_java_that_does_not_answer_is_gone() -> None:
    silent = Cut(OUTAGE)
    silent.cuts = 2
    lives = Lives(silent, Life())
    with pytest.raises(UnavailableError, match="Spark has ended under its query"):
        # Also after a life so long that nobody asks what it had finished.
        lives.keep(healthy_after_s=0)
    assert lives.deaths == []


def test_the_event_stops_the_query() -> None:
    stop = threading.Event()
    life = Life(looks=10**9, on_look=stop.set)
    assert Lives(life).keep(stop=stop) is life
    assert life.stopped


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_stop_the_query_and_are_given_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    life = Life(looks=10**9, on_look=lambda: os.kill(os.getpid(), number))
    assert Lives(life).keep() is life
    assert life.stopped
    assert signal.getsignal(number) is before


def test_stopped_before_it_could_start() -> None:
    stop = threading.Event()
    found = keep_running(
        Lives(UnavailableError("Nobody there.")).start, stop=stop, sleep=lambda _: stop.set()
    )
    assert found is None


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OUTAGE, "ValueError: an outage."),
        (FencedError("A newer run."), "A newer run."),
        (StreamingQueryException("[X] First.\nSecond\n\nJVM stacktrace:\n at"), "[X] First."),
        (died_of("barnabas.spark.nowhere.Error", "What?"), "barnabas.spark.nowhere.Error: What?."),
        (StreamingQueryException("a" * 500), "a" * 400 + "…"),
        (StreamingQueryException("Python worker failed to connect back."), deaths._TOO_BUSY),
        (UNANSWERED, deaths._JAVA_ENDED),
        (UNREACHABLE, deaths._JAVA_ENDED),
        (MUTE, deaths._JAVA_ENDED),
        (died_of("py4j.protocol.Py4JError", str(UNANSWERED)), deaths._JAVA_ENDED),
        (Py4JError(f"{UNANSWERED}. Trace:\npy4j.Py4JException: No such.\n\tat x"), "No such."),
    ],
)
def test_sentences(error: Exception, sentence: str) -> None:
    assert deaths.sentence_of(error) == sentence


def test_a_real_query_dies_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[int] = []
    stop = threading.Event()

    def write(rows: DataFrame, batch: int) -> None:
        seen.append(batch)
        if seen.count(1) == 1 and batch == 1:
            raise RuntimeError("the first time")
        if batch == 2:
            stop.set()
        if batch == 3:
            raise SharedPartitionError("Two tasks met: use to_topic().")

    def start() -> Any:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        writing = source.writeStream.foreachBatch(write).queryName("dying")
        return writing.option("checkpointLocation", str(tmp_path)).start()

    died: list[Death] = []
    query = keep_running(start, first_pause_s=0, stop=stop, on_death=died.append)
    assert query is not None
    assert not query.isActive
    assert seen[:4] == [0, 1, 1, 2]
    assert [death.sentence for death in died] == ["RuntimeError: the first time."]
    with pytest.raises(SharedPartitionError, match=r"^Two tasks met: use to_topic\(\)\.$"):
        keep_running(start)
    with pytest.raises(SparkJobError):
        # Batch 3 is done again, and fails again: a checkpoint remembers.
        keep_running(start, restarts=0)
