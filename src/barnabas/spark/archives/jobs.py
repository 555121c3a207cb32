"""Archiving and replaying as supervised processes: a driver that died is started again."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from barnabas.spark.archives import drivers
from barnabas.spark.archives.archiving import Asked
from barnabas.spark.archives.layout import SPARK_LOG
from barnabas.spark.archives.replaying import Replaying
from barnabas.spark.driver import Job, run_job
from barnabas.spark.quiet import quiet_settings
from barnabas.spark.tables.log import LOG_FOLDER

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_HELPFUL: Final = {
    # A page that nobody looks at, on a port that another job may want.
    "spark.ui.enabled": "false",
}


def spark_log(folder: str) -> str:
    """Where Spark's own words go."""
    return os.path.join(folder, SPARK_LOG)


def archive_job(
    asked: Asked, *, as_json: bool, master: str | None, settings: Mapping[str, str]
) -> Job:
    """The driver of an archive. One at a time is made sure of by the archive's lock."""
    said = json.dumps(asdict(asked) | {"as_json": as_json})
    return _job("archive_job.py", said, asked.folder, master, settings, quick_checkpoints=True)


def replay_job(
    asked: Replaying,
    plan: str,
    *,
    as_json: bool,
    master: str | None,
    settings: Mapping[str, str],
) -> Job:
    """The driver of a replay whose plan is there."""
    said = {
        "folder": asked.folder,
        "topic": asked.topic,
        "servers": asked.servers,
        "choices": {
            "delivery": asked.delivery,
            "by_key": asked.by_key,
            "kafka": dict(asked.kafka),
        },
        "plan": plan,
        "as_json": as_json,
    }
    return _job("replay_job.py", json.dumps(said), asked.folder, master, settings)


def run(job: Job, *, restarts: int, tell: Callable[[str], None], grows: str | None = None) -> int:
    """Its exit code; `restarts` below 0 are as many as needed.

    `grows`: the folder of the archive, if the job adds to it. A job that did is well.
    """
    return run_job(
        job,
        restarts=None if restarts < 0 else restarts,
        tell=tell,
        how_far=lambda: grows and _versions(grows),
    )


def _versions(folder: str) -> int:
    """Those that are committed: what a killed driver has left half-written is named otherwise."""
    return sum(1 for _ in Path(folder, LOG_FOLDER).glob("*.json"))


def _job(
    name: str,
    said: str,
    folder: str,
    master: str | None,
    settings: Mapping[str, str],
    *,
    quick_checkpoints: bool = False,
) -> Job:
    file = Path(drivers.__file__).with_name(name)
    quiet = quiet_settings(spark_log(folder), java_options=settings.get(_JAVA_OPTIONS, ""))
    decided = _HELPFUL | dict(settings) | quiet
    return Job(str(file), [said], master, decided, quick_checkpoints)
