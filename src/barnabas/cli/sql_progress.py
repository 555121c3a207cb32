"""How far a query is, on stderr, while a person looks on."""

import os
import shutil
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DRAW_S: Final = 0.25
_BAR_CHARS: Final = 30
_ERASE: Final = "\r\x1b[K"


class Progress:
    """One line that is drawn over and over, and gone at the end; nothing without a terminal."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._screen: TextIO | None = None
        self._spark: SparkSession | None = None
        self._over = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._draw, name="progress", daemon=True)
        self._rows = False

    def __enter__(self) -> Self:
        """Begin to draw."""
        if sys.stderr.isatty():
            # Its own: while Java starts, stderr leads elsewhere.
            self._screen = os.fdopen(os.dup(2), "w")
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the screen as it was."""
        self._stop()

    def watch(self, spark: "SparkSession") -> None:
        """From now on what Spark does is shown."""
        self._spark = spark

    def note(self, text: str) -> None:
        """A word to the person, between two drawings."""
        with self._turn:
            self._erase()
            print(text, file=sys.stderr, flush=True)

    def row_comes(self) -> None:
        """A row is about to be printed: on one screen with it there is no room for more."""
        if not self._rows:
            self._rows = True
            if sys.stdout.isatty():
                self._stop()

    def _stop(self) -> None:
        self._over.set()
        if self._screen is not None:
            self._thread.join()
            self._erase()
            self._screen.close()
            self._screen = None

    def _erase(self) -> None:
        if self._screen is not None:
            self._screen.write(_ERASE)
            self._screen.flush()

    def _draw(self) -> None:
        while not self._over.wait(_DRAW_S):
            line = self._line()
            with self._turn:
                if self._screen is not None:
                    self._screen.write(_ERASE + line[: shutil.get_terminal_size().columns - 1])
                    self._screen.flush()

    def _line(self) -> str:
        spent = f"{time.monotonic() - self._began_s:.0f} s"
        if self._spark is None:
            return f"Starting Spark, {spent}"
        done, total = tasks(self._spark)
        if not total:
            return f"Planning, {spent}"
        filled = _BAR_CHARS * done // total
        bar = "█" * filled + "░" * (_BAR_CHARS - filled)
        return f"{bar} {done} of {total} tasks, {spent}"


def tasks(spark: "SparkSession") -> tuple[int, int]:
    """Of the stages that run: how many are done, and how many there are."""
    from barnabas.spark.deaths import spark_errors

    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    except spark_errors():
        # Java is on its way out; whoever waits for the rows will say why.
        return 0, 0
    known = [stage for stage in stages if stage is not None]
    return sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)
