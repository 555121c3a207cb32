"""`barnabas archive`: a topic's records in Parquet files, continuously or once."""

import os
from typing import Annotated, Final

import typer

from barnabas.cli.archive_options import Conf, Master, Properties, Servers, settings_of
from barnabas.cli.client import DEFAULT_BOOTSTRAP, pairs
from barnabas.cli.moments import span_ms
from barnabas.cli.output import note

EXAMPLES: Final = """\b
Examples:
  barnabas archive orders archives/orders                 goes on until Ctrl-C
  barnabas archive orders archives/orders --once          up to what is there now
  barnabas archive orders archives/orders --from latest --every 1m
  barnabas group describe barnabas-archive-orders-…       how far it is behind
  barnabas replay archives/orders orders-again            and back into a topic
"""


def archive(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to archive.")],
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="The archive: one folder for one topic.")
    ],
    once: Annotated[
        bool, typer.Option("--once", help="Archive what is there now, and end.")
    ] = False,
    servers: Servers = DEFAULT_BOOTSTRAP,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="WHERE", help="Where a new archive begins: earliest, latest, or N."
        ),
    ] = "earliest",
    every: Annotated[
        str, typer.Option(metavar="TIME", help="How often new records are written to files.")
    ] = "10s",
    target_size: Annotated[
        str, typer.Option(metavar="SIZE", help="What small files are merged up to.")
    ] = "128MiB",
    codec: Annotated[
        str, typer.Option(metavar="CODEC", help="Of the files: zstd, snappy or none.")
    ] = "zstd",
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap", help="Go on without records that are lost, and note which they were."
        ),
    ] = False,
    properties: Properties = None,
    master: Master = None,
    conf: Conf = None,
    restarts: Annotated[
        int,
        typer.Option(
            min=-1,
            help="How often in a row a driver that died is started again; -1: as often as needed.",
        ),
    ] = -1,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each batch, and at the end.")
    ] = False,
) -> None:
    """Archive a topic: every committed record, once, in Parquet files.

    The folder is a Delta table, so anything that reads those reads archives, too; what is not
    committed is never seen. Each file holds the records of one partition, and is named after the
    first and the last of them. Small files are merged. Start it again, and it goes on where the
    archive ends, whatever was killed; Ctrl-C and SIGTERM stop it cleanly.

    A topic that was deleted and made again is another topic, and needs another folder. Spark's own
    words are in DIR/_spark.log.
    """
    from barnabas.spark.archives.archiving import Asked, check
    from barnabas.spark.archives.jobs import archive_job, run
    from barnabas.spark.source import texts

    asked = Asked(
        topic=topic,
        folder=os.path.abspath(folder),
        servers=servers,
        once=once,
        every_ms=span_ms(every),
        start=start,
        target_size=texts.size("--target-size", target_size),
        codec=codec,
        accept_gap=accept_gap,
        kafka=pairs("-X", properties),
    )
    check(asked)
    job = archive_job(asked, as_json=as_json, master=master, settings=settings_of(conf))
    code = run(job, restarts=restarts, tell=note, grows=asked.folder)
    if code:
        raise typer.Exit(code)
