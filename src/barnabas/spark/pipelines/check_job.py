"""`python -m barnabas.spark.pipelines.check_job FILE`: check pipelines, as `checks` starts it."""

import os
import pickle
import sys
from typing import TYPE_CHECKING

from barnabas.model.errors import BarnabasError
from barnabas.spark.deaths import job_error, sentence_of
from barnabas.spark.job import FAILED, hear_ctrl_c
from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.events import Teller
from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.state import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> int:
    """Tell every problem of every pipeline; the exit code says only whether it could be done."""
    pipelines: list[Pipeline]
    pipelines, offline = pickle.load(sys.stdin.buffer)
    teller = Teller(patient=True)
    teller.send_noise_to(os.devnull)
    hear_ctrl_c()
    try:
        _check(pipelines, offline, teller)
    except Exception as error:  # noqa: BLE001 - it is told, and decides the exit code
        ours = error if isinstance(error, BarnabasError) else job_error(error)
        teller.tell("failed", sentence_of(ours or error))
        return FAILED
    return 0


def _check(pipelines: list[Pipeline], offline: bool, teller: Teller) -> None:
    from barnabas.spark.quiet import quiet_start
    from barnabas.spark.sessions import session

    with quiet_start():
        spark = session("barnabas pipeline check")
    for number, pipeline in enumerate(pipelines):
        for sentence in _problems(pipeline, spark, offline):
            teller.tell("problem", sentence, number=number)
    spark.stop()


def _problems(pipeline: Pipeline, spark: "SparkSession", offline: bool) -> list[str]:
    from barnabas.spark.pipelines.checking import check

    try:
        shapes = State.of(pipeline).shapes()
    except PipelineError as error:
        return [str(error), *check(pipeline, spark, offline=offline)]
    return check(pipeline, spark, offline=offline, shapes_before=shapes)


if __name__ == "__main__":
    sys.exit(main())
