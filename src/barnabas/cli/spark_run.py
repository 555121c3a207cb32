"""`barnabas spark-run`: a job file on any Spark, with the settings that topics need."""

from typing import Annotated, Final

import typer

from barnabas.cli.output import note
from barnabas.model.errors import BarnabasError

EXAMPLES: Final = """\b
Examples:
  barnabas spark-run job.py                                         on this machine's cores
  barnabas spark-run --master spark://127.0.0.1:7077 job.py orders  `orders` is the job's
  barnabas spark-run --restarts -1 --conf spark.driver.memory=2g job.py
  barnabas spark-run --show --master yarn job.py                    the line for spark-submit
\b
A job:
  from barnabas.spark import keep_running, session, to_topic
  spark = session()
  orders = (spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", "127.0.0.1:9092")
            .option("subscribe", "orders").load())
  keep_running(lambda: orders.writeStream.format("console")
               .option("checkpointLocation", "checkpoints/orders").start())
"""
SETTINGS: Final = {"allow_interspersed_args": False}
"""What comes after the job file belongs to the job."""


def spark_run(
    job: Annotated[str, typer.Argument(metavar="JOB.py", help="A Python file.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARG", help="Handed on to the job.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            help="Where it runs: local[4], spark://HOST:PORT, yarn, k8s://….  [default: local[*]]"
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A Spark setting; repeatable."),
    ] = None,
    restarts: Annotated[
        int,
        typer.Option(
            min=-1,
            help="How often in a row a driver that died is started again; -1: as often as needed.",
        ),
    ] = 0,
    quick_checkpoints: Annotated[
        bool,
        typer.Option(
            "--quick-checkpoints",
            help="Shorter micro-batches, where nothing else could start the same query.",
        ),
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Only print the spark-submit line that does the same.")
    ] = False,
) -> None:
    """Run a Spark job written in Python, and start it again when it died.

    Sets what topics need: no speculation, stages that are not run twice, filters pushed down,
    larger Arrow batches, and this Python for the executors. Settings of your own win, except for
    those that could make an exactly-once query write twice. Options go before the job file.

    The exit code is the job's; 78 means that the job, its options or its checkpoint must be changed
    first, so that it is not started again. Ctrl-C and SIGTERM are handed on to the job, and the
    query in it stops cleanly when it runs in keep_running().
    """
    from barnabas.spark.driver import Job, run_job

    asked = Job(job, arguments or [], master, settings_of(conf or []), quick_checkpoints)
    if show:
        print(asked.spark_submit())
        return
    code = run_job(asked, restarts=None if restarts < 0 else restarts, tell=note)
    if code:
        raise typer.Exit(code)


def settings_of(pairs: list[str]) -> dict[str, str]:
    """What --conf said; BarnabasError for what is no setting of Spark's."""
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise BarnabasError(f"--conf {pair}: write it as spark.KEY=VALUE.")
        settings[key] = value
    return settings
