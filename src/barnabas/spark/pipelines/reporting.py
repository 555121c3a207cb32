"""The driver's hand on `status.json`."""

import os
import threading
from collections.abc import Callable

from barnabas.spark.pipelines import status as statuses
from barnabas.spark.pipelines.lock import now
from barnabas.spark.pipelines.state import State
from barnabas.spark.pipelines.status import Phase, QueryStatus, Status


class Reporter:
    """Keeps the status of one run; may be called by any thread."""

    def __init__(self, state: State, status: Status, complain: Callable[[str], None]) -> None:
        self._state = state
        before = statuses.read(state.folder)
        self._status = status
        self._complain = complain
        self._is_mute = False
        self._turn = threading.Lock()
        status.pid, status.started = os.getpid(), now()
        self.ran_before = False
        """Whether the queries ran in an earlier driver of the same run."""
        self._known = {} if before is None else before.known()
        status.earlier = self._known
        if before is not None and before.run == status.run:
            status.drivers = before.drivers + 1
            self.ran_before = bool(before.queries)
            status.queries = dict(before.queries)

    def query(self, name: str, group: str) -> QueryStatus:
        """A place for one query's numbers; totals go on from where they were."""
        generation = self._state.query(name).generation
        fresh = QueryStatus(name, group, generation=generation)
        before = self._known.get(name)
        if before is not None and before.generation == generation:
            fresh.batches_total, fresh.input_total = before.batches_total, before.input_total
            fresh.output_total, fresh.late_rows = before.output_total, before.late_rows
            fresh.state_rows, fresh.state_bytes = before.state_rows, before.state_bytes
            fresh.lag, fresh.watermark = before.lag, before.watermark
            if self._status.drivers > 1:
                fresh.restarts, fresh.error = before.restarts, before.error
                fresh.error_at = before.error_at
        self._status.queries[name] = fresh
        return fresh

    def master(self, master: str) -> None:
        """Where Spark runs."""
        self._status.master = master
        self.write()

    def phase(self, phase: Phase, sentence: str | None = None) -> None:
        """The whole pipeline is here now."""
        self._status.phase = phase
        self._status.sentence = sentence
        self.write()

    def write(self) -> None:
        """Now. A disk that is full is told of once, until it works again."""
        with self._turn:
            self._status.updated = now()
            try:
                statuses.write(self._state.folder, self._status)
                self._is_mute = False
            except OSError as problem:
                if not self._is_mute:
                    self._is_mute = True
                    self._complain(
                        f"The status can not be written to {self._state.folder} "
                        f"({problem.strerror}): `barnabas pipeline status` shows what was before."
                    )
