"""Checking pipeline files in a Spark of their own, which is gone afterwards."""

import os
import pickle
import signal
from collections.abc import Mapping, Sequence

from barnabas.spark.driver import Job, Wires, run_job
from barnabas.spark.errors import SparkJobError
from barnabas.spark.installation import check_installed
from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.events import Event, Listener
from barnabas.spark.quiet import quiet_settings


def check_all(
    pipelines: Sequence[Pipeline],
    *,
    offline: bool,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> list[list[str]]:
    """The sentences of what is wrong with each; SparkJobError when nothing could be checked.

    KeyboardInterrupt after Ctrl-C.
    """
    check_installed()
    signals: list[int] = []
    found: list[list[str]] = [[] for _ in pipelines]
    failures: list[str] = []

    def hear(event: Event) -> None:
        if event["event"] == "problem":
            found[event["number"]].append(str(event.get("sentence")))
        elif event["event"] == "failed":
            failures.append(str(event.get("sentence")))

    defaults = {"spark.ui.enabled": "false", "spark.app.name": "barnabas pipeline check"}
    job = Job(
        os.devnull if not pipelines else pipelines[0].file,
        master=master,
        settings=defaults | dict(settings or {}) | quiet_settings(),
        module="barnabas.spark.pipelines.check_job",
    )
    with Listener(hear) as listener:
        order = pickle.dumps((list(pipelines), offline))
        wires = Wires(stdin=order, stderr=listener.descriptor, hear=signals.append)
        code = run_job(job, wires=wires)
    if code and signal.SIGINT in signals:
        raise KeyboardInterrupt
    if code:
        raise SparkJobError(
            failures[0] if failures else f"The check ended with exit code {code} and said nothing."
        )
    return found
