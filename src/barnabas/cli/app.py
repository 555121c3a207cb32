"""Every command, put together for typer: help, completion and the errors of usage."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from barnabas import __version__
from barnabas.cli import (
    archive,
    bench,
    broker,
    cluster,
    config,
    consume,
    doctor,
    events,
    group,
    log,
    pipeline,
    produce,
    replay,
    spark_cluster,
    spark_run,
    sql,
    topic,
    txn,
    verify,
    zookeeper,
)
from barnabas.cli.ending import hang_up

_SENTENCE_MAX = 300


class _Listing(TyperGroup):
    """Help tells the whole first sentence of each command, not what fits into a line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands, one paragraph each."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_SENTENCE_MAX))
            for name, command in found
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _Commands(_Listing):
    """Every command ends well when its reader has enough; typer would call that a failure."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was chosen."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            raise typer.Exit(hang_up()) from None
        return result


app = typer.Typer(
    name="barnabas",
    cls=_Commands,
    no_args_is_help=True,
    # Plain text: it reads well everywhere, and rich takes longer to import than most commands run.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("up", epilog=broker.UP_EXAMPLES)(broker.up)
app.command("broker", epilog=broker.BROKER_EXAMPLES)(broker.broker)
app.command("zookeeper", epilog=zookeeper.EXAMPLES)(zookeeper.zookeeper)
app.add_typer(cluster.app, name="cluster")
app.command("events", epilog=events.EXAMPLES)(events.events)
app.add_typer(topic.app, name="topic")
app.add_typer(config.app, name="config")
app.command("produce", epilog=produce.EXAMPLES)(produce.produce)
app.command("consume", epilog=consume.EXAMPLES)(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(txn.app, name="txn")
app.add_typer(log.app, name="log")
app.add_typer(pipeline.app, name="pipeline")
app.command("sql", epilog=sql.EXAMPLES)(sql.sql)
app.command("archive", epilog=archive.EXAMPLES)(archive.archive)
app.command("replay", epilog=replay.EXAMPLES)(replay.replay)
app.command("spark-run", epilog=spark_run.EXAMPLES, context_settings=spark_run.SETTINGS)(
    spark_run.spark_run
)
app.command("spark-cluster", epilog=spark_cluster.EXAMPLES)(spark_cluster.spark_cluster)
app.command("verify", epilog=verify.EXAMPLES)(verify.verify)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
app.add_typer(bench.app, name="bench")
for _group in app.registered_groups:
    _group.cls = _Listing


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"barnabas {__version__}")
        raise typer.Exit


@app.callback()
def barnabas(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """A Kafka-compatible streaming broker, and the tools to use it.

    Start with `barnabas up`; then any Kafka client can use 127.0.0.1:9092.
    """
