"""`barnabas sql`: questions about topics and archives, answered by Spark."""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.archive_options import Conf, Master, Properties, Servers, settings_of
from barnabas.cli.client import DEFAULT_BOOTSTRAP, check_answers
from barnabas.cli.ending import INTERRUPTED
from barnabas.cli.output import note
from barnabas.cli.sql_print import CsvPrinter, JsonPrinter, Printer, TablePrinter, TextPrinter
from barnabas.cli.sql_progress import Progress
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.asking.asker import Answer

EXAMPLES: Final = """\b
Examples:
  barnabas sql "SELECT count(*) FROM orders"
  barnabas sql "SELECT doc:customer.name::string AS name, sum(doc:amount::double) AS total
                FROM orders GROUP BY ALL ORDER BY total DESC LIMIT 10"
  barnabas sql "SELECT key, value FROM orders WHERE timestamp > now() - INTERVAL 1 HOUR" --json
  barnabas sql --schema orders='id BIGINT, amount DOUBLE' "SELECT id, amount, offset FROM orders"
  barnabas sql --archive archives/orders "SELECT min(timestamp), count(*) FROM orders"
  barnabas sql 'SELECT count(*) FROM `./archives/orders`'       the archive alone, without a broker
  barnabas sql "DESCRIBE orders"                                 its columns; SHOW TABLES: topics
  barnabas sql --file query.sql --csv --limit 0 > all.csv
"""
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # The default is 200, which is more than a small answer has rows.
    "spark.sql.shuffle.partitions": "8",
    # Above so many files Spark lists them with a job of its own, which takes longer.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_interrupted: Final = threading.Event()
"""Whether somebody has pressed Ctrl-C."""
_PY4J_LOGGERS: Final = (None, "py4j.java_gateway", "py4j.clientserver")
"""Where Py4J logs; a filter of a logger is not asked about what its children log."""
_HASTY_JAVA: Final = (
    # Two fifths of what Java does until a first small answer is its second compiler at work on
    # code that is hardly used again: it comes ten times later, but still in time for a long scan.
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)


def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="SQL as Spark has it; - for stdin.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from there.")
    ] = None,
    servers: Servers = DEFAULT_BOOTSTRAP,
    archives: Annotated[
        list[str] | None,
        typer.Option(
            "--archive",
            metavar="DIR",
            help="An archive: what it holds of its topic is read from it; repeatable.",
        ),
    ] = None,
    schemas: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="TOPIC=COLUMNS",
            help="Fields of a topic's JSON values as columns; repeatable.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show so many rows; 0: all.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object for each row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV, with a line of names.")] = False,
    properties: Properties = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Ask topics and archives with SQL.

    A topic is a table of its records: partition, offset, timestamp, key and value (as text),
    doc (the value's JSON: doc:customer.name::string), headers, key_bytes, value_bytes,
    timestamp_type. Names with - need `backticks`, and the query then 'single quotes', for the shell
    runs what stands in backticks between double ones. Read is what is committed when the query
    begins; with --archive each offset once, from the files or from the broker. Filters on
    partition, offset and timestamp spare reading the rest. Nothing is ever written.

    Times are UTC, unless --conf spark.sql.session.timeZone=… says otherwise.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other.")
    text = _query(query, file)
    options = {"kafka.bootstrap.servers": servers} | {
        f"kafka.{key}": value for key, value in _pairs("-X", properties).items()
    }
    fields = _pairs("--schema", schemas)
    settings = settings_of(conf)
    from barnabas.spark.asking.asker import Asker, archives_by_topic

    archives_by_topic(archives or [])
    with _interruptible(), Progress() as progress:
        spark = _start(master, settings)
        progress.watch(spark)
        asker = Asker(
            spark,
            options,
            archives=archives or [],
            schemas=fields,
            tell=progress.note,
            reach=lambda: check_answers(servers),
        )
        answer = asker.ask(text)
        printer = _printer(answer, as_json=as_json, as_csv=as_csv)
        more = _print(answer.rows(limit + 1 if limit else 0), printer, limit, progress)
    _tell_count(printer, more=more)


def _printer(answer: "Answer", *, as_json: bool, as_csv: bool) -> Printer:
    if as_json:
        return JsonPrinter(answer.columns)
    if as_csv:
        return CsvPrinter(answer.columns)
    return TextPrinter() if answer.is_text else TablePrinter(answer.columns)


def _print(
    rows: Iterator[tuple[object, ...]], printer: Printer, limit: int, progress: Progress
) -> bool:
    """Print up to `limit` rows; whether there were more."""
    for row in rows:
        if limit and printer.count == limit:
            printer.end()
            return True
        progress.row_comes()
        printer.row(row)
    progress.row_comes()
    printer.end()
    return False


def _tell_count(printer: Printer, *, more: bool) -> None:
    count = printer.count
    if more:
        note(f"({count:,} rows shown, more were left out: --limit 0 shows all)")
    elif isinstance(printer, TablePrinter):
        note("(1 row)" if count == 1 else f"({count:,} rows)")


def _start(master: str | None, settings: dict[str, str]) -> "SparkSession":
    from barnabas.spark.quiet import quiet_settings, quiet_start
    from barnabas.spark.sessions import session

    own = settings.pop(_JAVA_OPTIONS, "")
    quiet = quiet_settings(java_options=f"{_HASTY_JAVA} {own}".strip())
    with quiet_start():
        spark = session("barnabas sql", master=master, settings=_SETTINGS | quiet | settings)
    # PySpark's own handler asks Java to cancel, in the midst of another call, which fails.
    signal.signal(signal.SIGINT, _interrupt)
    return spark


def _interrupt(_number: int, _frame: object) -> None:
    _interrupted.set()
    raise KeyboardInterrupt


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends this process, and Java with it."""
    # Py4J tells of a call that was interrupted, with a traceback; what it tells is raised as well.
    loggers = [logging.getLogger(name) for name in _PY4J_LOGGERS]
    for logger in loggers:
        logger.addFilter(_drop)
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        # Whatever was being done may make an error of its own of it.
        if not isinstance(error, KeyboardInterrupt) and not _interrupted.is_set():
            raise
        sys.stdout.flush()
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for logger in loggers:
            logger.removeFilter(_drop)


def _drop(_record: logging.LogRecord) -> bool:
    return False


def _query(query: str | None, file: str | None) -> str:
    if (query is None) == (file is None):
        raise typer.BadParameter("give a query, or --file with one (- is stdin).")
    if query is not None and query != "-":
        return query
    if file is None or file == "-":
        return sys.stdin.read()
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except UnicodeDecodeError as problem:
        raise BarnabasError(f"{file} is no text in UTF-8: name a file with a query.") from problem


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not value.strip():
            like = "orders='id BIGINT, amount DOUBLE'" if option == "--schema" else "key=value"
            raise BarnabasError(f"{option} {text}: write it as {like}.")
        if name in found:
            raise BarnabasError(f"{option} {name} is given twice: give it once.")
        found[name.strip()] = value
    return found
