"""Running a pipeline: the process that holds its lock and keeps its driver alive."""

import os
import pickle
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.spark.driver import Job, Wires, run_job
from barnabas.spark.installation import check_installed, spark_home
from barnabas.spark.job import FAILED, INTERRUPTED, NEEDS_CHANGE
from barnabas.spark.pipelines import status
from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.events import Event, Listener, note
from barnabas.spark.pipelines.lives import GIVEN_UP
from barnabas.spark.pipelines.lock import Lock
from barnabas.spark.pipelines.order import LOG, Order
from barnabas.spark.pipelines.state import State, reset
from barnabas.spark.quiet import quiet_settings
from barnabas.spark.sessions import DEFAULT_MASTER
from barnabas.spark.submitted import submitted_settings

RESTARTS_ONCE: Final = 5
"""Of a run that is to end: half a minute of trouble."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\d+)?\])?")
_PARTITIONS_MIN, _PARTITIONS_MAX = 2, 16


@dataclass(frozen=True, slots=True)
class Choices:
    """How a person wants it run."""

    once: bool = False
    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's; they win over the file's."""
    restarts: int | None = None
    """In a row, of each query and of the driver; None: no bound."""
    resets: tuple[str, ...] = ()


def run(pipeline: Pipeline, choices: Choices, hear: Callable[[Event], None]) -> int:
    """Run it until it ends, is stopped or can not go on; the exit code.

    0 when it ended or SIGTERM stopped it, 130 after Ctrl-C, 78 when something must be changed
    first, 1 when it was given up after `restarts`. `hear` gets events from other threads. Raises
    PipelineError when it runs already, or its state is another's.
    """
    check_installed()
    heard: list[int] = []
    with Lock(pipeline.state, pipeline.name) as lock:
        for sentence in reset(pipeline, State.of(pipeline), list(choices.resets)):
            hear(note(sentence))
        order = Order(pipeline, lock.holder.since, choices.once, choices.restarts)
        with Listener(hear) as listener:
            code = run_job(
                job_of(pipeline, choices),
                restarts=choices.restarts,
                tell=lambda sentence: hear(note(sentence)),
                wires=Wires(
                    stdin=pickle.dumps(order),
                    stderr=listener.descriptor,
                    # So the lock also holds against a driver that outlives us.
                    inherited=(lock.descriptor,),
                    hear=heard.append,
                ),
                how_far=lambda: _batches(pipeline),
                final=(0, NEEDS_CHANGE, GIVEN_UP),
            )
    if heard and code != NEEDS_CHANGE:
        return INTERRUPTED if heard[0] == signal.SIGINT else 0
    return FAILED if code == GIVEN_UP else code


def _batches(pipeline: Pipeline) -> int:
    """How many were finished, by all drivers there ever were."""
    last = status.read(pipeline.state)
    return 0 if last is None else sum(each.batches_total for each in last.known().values())


def job_of(pipeline: Pipeline, choices: Choices) -> Job:
    """Its driver, with every setting it starts with."""
    given = submitted_settings(os.environ, spark_home())
    chosen = {**pipeline.settings, **choices.settings}
    master = choices.master or chosen.get("spark.master") or given.get("spark.master")
    said = given | chosen
    log = os.path.join(pipeline.state, LOG)
    defaults = {
        "spark.app.name": pipeline.name,
        "spark.ui.enabled": "false",
        **_shuffle_partitions(master or DEFAULT_MASTER),
    }
    ours = {key: value for key, value in defaults.items() if key not in said}
    quiet = quiet_settings(log, java_options=said.get(_JAVA_OPTIONS, ""))
    return Job(
        pipeline.file,
        master=master,
        settings=ours | chosen | quiet,
        module="barnabas.spark.pipelines.job",
    )


def _shuffle_partitions(master: str) -> dict[str, str]:
    """On one machine Spark's 200 pieces of state would only cost time."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        return {}
    cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
    partitions = min(max(cores, _PARTITIONS_MIN), _PARTITIONS_MAX)
    return {"spark.sql.shuffle.partitions": str(partitions)}
