"""`barnabas up` and `barnabas broker`: a broker in the foreground.

These functions are what help and completion read; a plain start goes past them (see `quick`).
"""

from typing import Annotated, Final, Literal

import typer

from barnabas.cli.quick import BROKERS_MAX, ENSEMBLE_MAX, Choices

UP_EXAMPLES: Final = """\b
Examples:
  barnabas up                                  data in ./barnabas-data, port 9092
  barnabas up --data /var/lib/barnabas --port 19092
  barnabas up --memory --port 0                nothing on disk, any free port
  barnabas up --set num.partitions=6 --set log.retention.hours=24
  barnabas up --brokers 3                      a cluster: ports 9092 to 9094, and a ZooKeeper
  barnabas up --brokers 3 --ensemble 3 --data /var/lib/barnabas
"""

BROKER_EXAMPLES: Final = """\b
Examples:
  barnabas broker --config barnabas.toml
  BARNABAS_NUM_PARTITIONS=6 barnabas broker --config barnabas.toml
  barnabas broker --config barnabas.toml --set listeners=PLAINTEXT://127.0.0.1:19092
\b
A configuration file:
  listeners = "PLAINTEXT://127.0.0.1:9092"
  log.dirs = "/var/lib/barnabas"
  log.retention.hours = 48
"""

LogLevel = Literal["debug", "info", "warning", "error"]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A broker key, by Kafka's name for it."),
]
Level = Annotated[LogLevel, typer.Option("--log-level", help="How much is told on stderr.")]


def up(
    brokers: Annotated[
        int,
        typer.Option(
            min=1,
            max=BROKERS_MAX,
            metavar="N",
            help="How many brokers. Several are a cluster, at --port and the ports after it, "
            "with a ZooKeeper (needs Java).",
        ),
    ] = 1,
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where the data lies.  [default: ./barnabas-data]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="0 means any free one.  [default: 9092]"),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Beyond loopback, allow.insecure must be set.  [default: 127.0.0.1]"),
    ] = None,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory",
            help="Keep everything in memory; it ends with the broker. Several brokers use a "
            "temporary directory instead.",
        ),
    ] = False,
    ensemble: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=ENSEMBLE_MAX,
            metavar="N",
            help="With --brokers: how many ZooKeeper servers.  [default: 1]",
        ),
    ] = None,
    settings: Settings = None,
    log_level: Level = "info",
) -> None:
    """Start a broker on this machine, or a cluster of them, in the foreground.

    It says when it is ready; then any Kafka client can use it. Ctrl-C (or SIGTERM) stops it
    cleanly. Every key can also be set as BARNABAS_<KEY> in the environment, with _ for each dot.

    With --brokers 3 each broker is a process of its own, which may use a core of its own, with its
    data below --data. Topics have 3 replicas unless told otherwise, and a write with acks=all is
    acknowledged by 2 of them at least. A broker that dies is started again: kill one to see
    the others take over.
    """
    from barnabas.cli.serving import serve_until_stopped

    serve_until_stopped(
        Choices(
            data=data,
            port=port,
            host=host,
            memory=memory,
            brokers=brokers,
            ensemble=ensemble,
            settings=settings or [],
            log_level=log_level,
        )
    )


def broker(
    config: Annotated[str, typer.Option(metavar="FILE", help="A TOML file of broker keys.")],
    settings: Settings = None,
    log_level: Level = "info",
) -> None:
    """Start one broker from a configuration file, in the foreground.

    The environment (BARNABAS_<KEY>, with _ for each dot) overrides the file, and --set overrides
    both.
    """
    from barnabas.cli.serving import serve_until_stopped

    serve_until_stopped(Choices(config=config, settings=settings or [], log_level=log_level))
