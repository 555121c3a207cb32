"""`barnabas pipeline`: check, run and watch pipelines that are declared in YAML files."""

from typing import Annotated, Final

import typer

from barnabas.cli.output import AsJson, note, print_json, print_table

app = typer.Typer(
    help="Check, run and watch pipelines: topics in, topics and tables out.", no_args_is_help=True
)

_FILE: Final = """\b
A complete file:
  pipeline: orders-by-minute
  servers: 127.0.0.1:9092
  sources:
    orders:
      topic: orders
      format: json
      schema: id BIGINT, country STRING, amount DECIMAL(10,2), at TIMESTAMP
      watermark: at, 30 seconds
      dead_letter: orders-dead
  steps:
    totals: |
      SELECT window.start AS minute, country, sum(amount) AS total
      FROM orders GROUP BY window(at, '1 minute'), country
  sinks:
    totals: {from: totals, topic: totals, key: country}
    all_orders: {from: orders, table: tables/orders}
"""
RUN_EXAMPLES: Final = f"""\b
Examples:
  barnabas pipeline run orders.yaml                    until Ctrl-C, whatever dies meanwhile
  barnabas pipeline run orders.yaml --once             what is there now, then it ends
  barnabas pipeline run orders.yaml --master spark://127.0.0.1:7077 --conf spark.cores.max=4
  barnabas pipeline run orders.yaml --reset totals     write `totals` anew from the beginning
\b
Exit codes:
  0 it ended, or SIGTERM stopped it; 130 after Ctrl-C; 1 it was given up after --restarts, or runs
  already; 78 the file, a topic or a folder must be changed first, and the sentence says which.
{_FILE}"""
CHECK_EXAMPLES: Final = f"""\b
Examples:
  barnabas pipeline check orders.yaml
  barnabas pipeline check pipelines/*.yaml --json
  barnabas pipeline check orders.yaml --offline        without asking any broker
{_FILE}"""
STATUS_EXAMPLES: Final = """\b
Examples:
  barnabas pipeline status orders.yaml
  barnabas pipeline status orders.yaml --watch
  barnabas pipeline status orders.yaml --json | jq '.queries[].lag_seconds'
"""
LIST_EXAMPLES: Final = """\b
Examples:
  barnabas pipeline list
  barnabas pipeline list examples --json
"""

File = Annotated[str, typer.Argument(metavar="FILE", help="A pipeline's YAML file.")]
Master = Annotated[
    str | None,
    typer.Option(
        help="Where it runs: local[4], spark://HOST:PORT, yarn, k8s://….  [default: local[*]]"
    ),
]


@app.command("run", epilog=RUN_EXAMPLES)
def run(
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="Work through what is there now, then end.")
    ] = False,
    master: Master = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A Spark setting; repeatable."),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(
            min=-1,
            help="How often in a row a query or the driver that died is started again; -1: as "
            "often as needed.  [default: -1; 5 with --once]",
        ),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SINK",
            help="Forget where this sink was and write it anew: it reads from where its sources "
            "start, and what is still in the topics is written again; repeatable.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what is wrong.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each event, and progress.")
    ] = False,
) -> None:
    """Run a pipeline, and keep it running.

    Each sink is a query of its own. A query that dies is started again after a pause that doubles
    up to a minute, and so is the whole driver; only what no restart can mend ends it, with a
    sentence that names the place. Checkpoints, Spark's log and the lock against a second run are
    in the state folder: .barnabas/NAME next to the file, unless it says otherwise. With workers on
    other machines, that folder must be one that all of them reach.
    """
    from barnabas.cli.ending import fail
    from barnabas.cli.pipeline_screen import Screen, kind_for
    from barnabas.cli.spark_run import settings_of
    from barnabas.spark.pipelines.reading import read
    from barnabas.spark.pipelines.running import RESTARTS_ONCE, Choices
    from barnabas.spark.pipelines.running import run as run_pipeline

    pipeline = read(file)
    if restarts is None:
        restarts = RESTARTS_ONCE if once else -1
    choices = Choices(
        once=once,
        master=master,
        settings=settings_of(conf or []),
        restarts=None if restarts < 0 else restarts,
        resets=tuple(reset or ()),
    )
    with Screen(pipeline.state, kind_for(as_json=as_json, quiet=quiet)) as screen:
        code = run_pipeline(pipeline, choices, screen.hear)
    for sentence in screen.failures:
        fail(sentence)
    if code:
        raise typer.Exit(code)


@app.command("check", epilog=CHECK_EXAMPLES)
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="One or more pipeline files.")],
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no broker whether the topics are there.")
    ] = False,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with pipeline files, with the line, without running them.

    Keys, names, schemas, SQL, columns, Python functions, what streams can not do, topics and
    folders of tables. All problems at once; the exit code is 1 when there is any.
    """
    from barnabas.cli.pipeline_check import check_files

    checked = check_files(files, offline=offline, master=master)
    if as_json:
        print_json([each.as_object() for each in checked])
    else:
        for each in checked:
            for line in each.lines():
                print(line)
    if any(each.problems for each in checked):
        raise typer.Exit(1)


@app.command("status", epilog=STATUS_EXAMPLES)
def status(
    file: File,
    as_json: AsJson = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every two seconds.")
    ] = False,
) -> None:
    """Show whether a pipeline runs, how fast, and how far it is behind.

    Rates are rows a second over the last ten seconds or two batches. Lag is told in records and in
    seconds, by the broker itself: each query has a consumer group, PIPELINE.QUERY, which
    `barnabas group describe` knows too. `keeps` is what a query remembers between batches: windows
    that are open, sides of joins, keys seen. A narrow terminal gets fewer columns; --json has all.
    """
    from barnabas.cli.pipeline_status import show
    from barnabas.spark.pipelines.reading import read

    show(read(file), as_json=as_json, watch=watch)


@app.command("list", epilog=LIST_EXAMPLES)
def list_(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Where to look, folders below it included.")
    ] = ".",
    as_json: AsJson = False,
) -> None:
    """List the pipeline files below a folder: YAML files with the key `pipeline`.

    `unset` means that a variable of the environment is missing which the file asks for, `broken`
    that the file must be mended; below the table there is a sentence for each.
    """
    from barnabas.cli.pipeline_list import list_pipelines

    found = list_pipelines(folder)
    if as_json:
        print_json([each.as_object() for each in found])
        return
    titles = ("file", "pipeline", "sinks", "state", "since", "lag")
    print_table(titles, [each.as_row() for each in found])
    for each in found:
        if each.problem is not None:
            note(each.problem)
    if not found:
        note(f"There is no YAML file with the key `pipeline` below {folder}.")
