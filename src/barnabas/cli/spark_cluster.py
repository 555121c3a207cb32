"""`barnabas spark-cluster`: a real Spark cluster on this machine, in the foreground."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.foreground import check_loopback, ended_by_signals
from barnabas.cli.output import print_json

if TYPE_CHECKING:
    from barnabas.spark.standalone import StandaloneCluster

EXAMPLES: Final = """\b
Examples:
  barnabas spark-cluster
  barnabas spark-cluster --workers 4 --cores 2 --memory 2g
  barnabas spark-cluster --port 0 --json | jq .      any free port; one object an event
\b
Then, in another terminal:
  barnabas spark-run --master spark://127.0.0.1:7077 job.py
"""
_LOOK_S: Final = 0.5


def spark_cluster(
    workers: Annotated[int, typer.Option(min=1, max=200, help="How many workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Cores that each worker gives away.")] = 1,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory that each worker gives away: 512m, 2g.")
    ] = "1g",
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The master's port; 0 takes any free one.")
    ] = 7077,
    ui_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="The port of its page.  [default: 8080, if it is free]"
        ),
    ] = None,
    directory: Annotated[
        str, typer.Option("--dir", metavar="DIR", help="Where logs and scratch files go.")
    ] = "barnabas-spark",
    allow_insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure", help="Listen beyond this machine: whoever comes may run code."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object an event instead of sentences.")
    ] = False,
) -> None:
    """Start a Spark master and workers on this machine, from the pip package.

    Real processes, as on many machines: jobs are spread over executors, and a worker can be killed
    to see what becomes of its job. A worker that dies is started again, and both are told. Ctrl-C
    stops everything. An executor takes 1g of memory, unless its job says otherwise
    (spark.executor.memory): a job that asks for more than a worker has waits for ever.
    """
    from barnabas.spark.standalone import StandaloneCluster

    check_loopback(host, allow_insecure, "run any program on this machine")
    cluster = StandaloneCluster(
        workers,
        cores=cores,
        memory=memory,
        host=host,
        port=port,
        ui_port=ui_port,
        directory=directory,
    )
    with ended_by_signals(), cluster:
        _tell_ready(cluster, f"{cores} {'core' if cores == 1 else 'cores'}, {memory}", as_json)
        while True:
            time.sleep(_LOOK_S)
            for change in cluster.tend():
                if as_json:
                    print_json({"event": f"worker-{change.event}", "worker": change.worker})
                    sys.stdout.flush()
                else:
                    print(change.sentence, flush=True)


def _tell_ready(cluster: "StandaloneCluster", each: str, as_json: bool) -> None:
    from importlib import metadata

    if as_json:
        workers = [
            {"worker": worker.number, "pid": worker.pid, "host": worker.host, "port": worker.port}
            for worker in cluster.workers
        ]
        told = {"event": "ready", "master": cluster.master_url, "ui": cluster.ui_url}
        print_json(told | {"directory": str(cluster.directory), "workers": workers})
        sys.stdout.flush()
        return
    count = len(cluster.workers)
    print(
        f"Spark {metadata.version('pyspark')} is ready at {cluster.master_url} with {count} "
        f"{'worker' if count == 1 else 'workers'} ({each} each); Ctrl-C stops it. "
        f"Its page is {cluster.ui_url}. Logs are in {cluster.directory}.\n"
        f"Run a job on it: barnabas spark-run --master {cluster.master_url} JOB.py",
        flush=True,
    )
