"""A job's driver as a process of its own, which is started again when it died."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.spark.errors import SparkJobError
from barnabas.spark.installation import spark_home
from barnabas.spark.java import find_java
from barnabas.spark.job import NEEDS_CHANGE
from barnabas.spark.sessions import DEFAULT_MASTER, decide, prepare_environment
from barnabas.spark.submitted import SUBMIT_ARGUMENTS, submit_arguments, submitted_settings
from barnabas.spark.supervisor import Pauses
from barnabas.spark.watchdog import Watchdog, end_groups

HEALTHY_AFTER_S: Final = 300.0
"""A driver that lived so long had got on: the pauses begin again."""
_SIGNALS_PATIENCE: Final = 3
"""So many signals ask; the next one ends it at once."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, and where."""

    file: str
    arguments: list[str] = field(default_factory=list)
    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    quick_checkpoints: bool = False
    module: str = "barnabas.spark.job"
    """What makes a driver of the file."""

    def decided(self) -> dict[str, str]:
        """Every setting it runs with; SparkJobError for what could make it write twice."""
        given = submitted_settings(os.environ, spark_home())
        decided = decide(given | dict(self.settings), quick_checkpoints=self.quick_checkpoints)
        where = self.master or decided.get("spark.master") or DEFAULT_MASTER
        return {"spark.master": where, **(decided | {"spark.master": where})}

    def spark_submit(self) -> str:
        """The line that runs it with Spark's own program, for masters that want a cluster mode."""
        words = [os.path.join(spark_home(), "bin", "spark-submit")]
        for key, value in self.decided().items():
            words += ["--master", value] if key == "spark.master" else ["--conf", f"{key}={value}"]
        return shlex.join([*words, self.file, *self.arguments])


@dataclass(frozen=True, slots=True)
class Wires:
    """What ties a driver to the process that started it."""

    stdin: bytes | None = None
    """For it to read, in each of its lives; None: our own."""
    stderr: int | None = None
    """The descriptor to write to instead of ours."""
    inherited: Collection[int] = ()
    """Descriptors that it keeps open as long as it lives: those of locks."""
    hear: Callable[[int], None] | None = None
    """Gets each signal that was handed on."""


def run_job(
    job: Job,
    *,
    restarts: int | None = 0,
    pauses: Pauses | None = None,
    tell: Callable[[str], None] | None = None,
    wires: Wires | None = None,
    how_far: Callable[[], object] = lambda: None,
    final: Collection[int] = (0, NEEDS_CHANGE),
) -> int:
    """Run the job, and again when it died, at most `restarts` times in a row; its exit code.

    It is not run again when it ended well, was stopped, or said that it must be changed first:
    when its code is one of `final`. The pauses between its lives grow; they begin again after one
    that was long, or in which the answer of `how_far` has changed. SIGTERM and Ctrl-C are handed
    on to it. A driver that was killed by a signal gives 128 and the signal's number, as in shells.
    """
    if not os.path.isfile(job.file):
        raise SparkJobError(f"There is no job file {job.file}.")
    find_java()
    with Watchdog() as watchdog, _Driver(job, watchdog, wires or Wires()) as driver:
        waits = pauses or Pauses()
        while True:
            began, before = time.monotonic(), how_far()
            code = driver.live()
            if time.monotonic() - began >= HEALTHY_AFTER_S or how_far() != before:
                waits.reset()
            if code in final or driver.stop.is_set() or waits.taken == restarts:
                return code
            pause = waits.next()
            if tell is not None:
                tell(f"The driver ended with exit code {code}; it is started again in {pause:g} s.")
            if driver.stop.wait(pause):
                return code


class _Driver:
    """The process of the moment; signals of ours are handed on to it."""

    def __init__(self, job: Job, watchdog: Watchdog, wires: Wires) -> None:
        decided = job.decided()
        self._command = [sys.executable, "-m", job.module, job.file, *job.arguments]
        self._environment = dict(os.environ)
        before = os.environ.get(SUBMIT_ARGUMENTS, "")
        self._environment[SUBMIT_ARGUMENTS] = submit_arguments(decided, before)
        prepare_environment(decided["spark.master"], self._environment)
        self._watchdog = watchdog
        self._wires = wires
        self._process: subprocess.Popen[bytes] | None = None
        self._before: dict[signal.Signals, object] = {}
        self._heard = 0
        self.stop = threading.Event()

    def live(self) -> int:
        """Start it and wait for its end; its exit code."""
        self._process = self._started()
        group = self._process.pid
        self._watchdog.watch(group)
        try:
            if self.stop.is_set():
                self._process.terminate()
            code = self._process.wait()
        finally:
            if self._process.poll() is None or self._process.returncode != 0:
                # Its Java must not go on with a batch which the next driver does again.
                end_groups([group])
            self._watchdog.forget(group)
        return 128 - code if code < 0 else code

    def _started(self) -> subprocess.Popen[bytes]:
        with tempfile.TemporaryFile() as given:
            given.write(self._wires.stdin or b"")
            given.seek(0)
            # It inherits that Ctrl-C waits until it can hear: Python, while it still imports, would
            # print where that was.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
            try:
                # A session of its own: Ctrl-C must reach Python through us, and not reach Java.
                return subprocess.Popen(
                    self._command,
                    env=self._environment,
                    start_new_session=True,
                    stdin=None if self._wires.stdin is None else given,
                    stderr=self._wires.stderr,
                    pass_fds=tuple(self._wires.inherited),
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> "_Driver":
        """Listen to signals, where that is possible."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._hand_on)
        return self

    def __exit__(self, *_how: object) -> None:
        """As before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _hand_on(self, number: int, _frame: object) -> None:
        self.stop.set()
        self._heard += 1
        if self._wires.hear is not None:
            self._wires.hear(number)
        process = self._process
        if process is None or process.poll() is not None:
            return
        if self._heard > _SIGNALS_PATIENCE:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.send_signal(number)
