"""A Spark session with the settings that topics need, however Spark was started."""

import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Final

from barnabas.spark.errors import SparkJobError
from barnabas.spark.installation import check_installed, spark_home
from barnabas.spark.java import find_java
from barnabas.spark.submitted import submitted_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"

REQUIRED: Final = {
    # A second copy of a task would write into the transaction which the first one writes into.
    "spark.speculation": "false",
    # The tasks of a stage that is run again count their attempts from 0, as if nothing had been
    # written; while those of its first run may still be writing.
    "spark.stage.maxConsecutiveAttempts": "1",
}
"""Without these a batch could be written twice; so nothing else is accepted."""

HELPFUL: Final = {
    # Without it every batch read with pushdown=true is refused by Spark.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Spark's 10,000 make the sink pay for its calls; larger batches gain nothing more.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    # Between Java and Python: a tenth faster than TCP.
    "spark.python.unix.domain.socket.enabled": "true",
}
"""These make topics work well; whatever somebody else has set stays."""

QUICK_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}

_CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
_WITH_RENAME: Final = ("file", "hdfs", "viewfs")
"""Where a file can be renamed in one step; in object stores it is copied."""
_LOOPBACK: Final = re.compile(r"local(\[.*\])?|spark://(127\.[\d.]+|localhost|\[::1\]):\d+")


def session(
    name: str = "barnabas",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    quick_checkpoints: bool = False,
) -> "SparkSession":
    """Start Spark, or take the session that runs, with everything set that topics need.

    `master` is where the job runs: `local[*]`, `spark://host:7077`, `yarn`, `k8s://…`. When it is
    left out, what `spark-submit` or `barnabas spark-run` were told counts, and `local[*]`
    otherwise. (A local Spark ends a query at the first task that fails, which shows its true
    cause; `local[*,4]` tries a task four times.)

    `settings` are Spark's own, and win over ours, as do those of spark-submit and of
    spark-defaults.conf; only what could make an exactly-once query write twice is refused.

    `quick_checkpoints` takes about 60 ms off every micro-batch, but leaves out the step by which
    Spark notices that two drivers work on one checkpoint. The exactly-once sink does not need that
    step, since the older driver is fenced; queries into anything else do. Switch it on when one
    driver at a time is made sure of otherwise, and never with checkpoints in an object store.

    A session that runs already is changed where that is possible. Raises SparkJobError where it is
    not, and when Spark or Java is missing.
    """
    check_installed()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    chosen = {key: str(value) for key, value in (settings or {}).items()}
    _refuse_connect(master)
    if SparkContext._active_spark_context is not None:
        decided = decide(chosen, quick_checkpoints=quick_checkpoints)
        return _adapt(SparkSession.builder.getOrCreate(), master, decided, chosen)
    given = submitted_settings(os.environ, spark_home())
    decided = decide(given | chosen, quick_checkpoints=quick_checkpoints)
    where = master or decided.get("spark.master") or DEFAULT_MASTER
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        find_java()
    prepare_environment(where, os.environ)
    builder = SparkSession.builder
    for key, value in decided.items():
        # What was submitted is there already, and Java has read it.
        if key not in given or key in chosen:
            builder = builder.config(key, value)
    return builder.appName(name).master(where).getOrCreate()


def settings_for_jobs(*, quick_checkpoints: bool = False) -> dict[str, str]:
    """What `session()` sets, for who starts jobs with spark-submit or a builder of their own."""
    return REQUIRED | HELPFUL | (QUICK_CHECKPOINTS if quick_checkpoints else {})


def decide(chosen: Mapping[str, str], *, quick_checkpoints: bool = False) -> dict[str, str]:
    """Our settings and, above them, what people chose; SparkJobError for what can not be."""
    for key, needed in REQUIRED.items():
        if key in chosen and not _same(chosen[key], needed):
            raise SparkJobError(
                f"{key}={chosen[key]} could make an exactly-once query write rows twice: leave it "
                f"out or set it to {needed}."
            )
    decided = settings_for_jobs(quick_checkpoints=quick_checkpoints) | dict(chosen)
    scheme, colon, _ = decided.get(_CHECKPOINTS, "").partition(":")
    if quick_checkpoints and colon and scheme not in _WITH_RENAME:
        raise SparkJobError(
            f"quick_checkpoints needs checkpoints in a file system, and {_CHECKPOINTS} is "
            f"{decided[_CHECKPOINTS]}: leave quick_checkpoints out."
        )
    return decided


def prepare_environment(master: str, environment: MutableMapping[str, str]) -> None:
    """Which Python and which address Spark takes, unless somebody has said so already.

    On YARN and Kubernetes the executors' Python is another machine's business.
    """
    if master.startswith(("local", "spark://")):
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _LOOPBACK.fullmatch(master):
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _refuse_connect(master: str | None) -> None:
    if (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://"):
        raise SparkJobError(
            "A Spark Connect server has its settings from its own start: give it those of "
            "settings_for_jobs(), and use SparkSession.builder.remote(…) instead of session()."
        )


def _adapt(
    running: "SparkSession",
    master: str | None,
    decided: Mapping[str, str],
    chosen: Mapping[str, str],
) -> "SparkSession":
    """Set in a running session what can be set there; SparkJobError for what had to be before."""
    at = running.sparkContext.master
    late = [f"its master is {at} instead of {master}"] if master not in (None, at) else []
    for key, value in decided.items():
        now = running.conf.get(key, None)
        if now is None and key == "spark.speculation":
            now = "false"
        if now is not None and (_same(now, value) or (key in HELPFUL and key not in chosen)):
            continue
        if running.conf.isModifiable(key):
            running.conf.set(key, value)
        elif key in chosen or key not in HELPFUL:
            late.append(f"{key} is {'unset' if now is None else now} instead of {value}")
    if late:
        raise SparkJobError(
            f"A Spark session is running, and {'; '.join(late)}: this can not be changed any more, "
            "so call session() before anything else starts one, or stop it with spark.stop() first."
        )
    return running


def _same(one: str, other: str) -> bool:
    return one.strip().lower() == other.strip().lower()
