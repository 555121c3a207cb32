"""Options that `archive` and `replay` share."""

from typing import Annotated

import typer

from barnabas.model.errors import BarnabasError

Servers = Annotated[
    str,
    typer.Option(
        "--servers",
        "--bootstrap",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT",
        help="The broker to talk to; several with commas.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Where Spark runs: local[4], spark://HOST:PORT, yarn, k8s://….  [default: local[*]]"
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A Spark setting; repeatable."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "-X", metavar="KEY=VALUE", help="A client's setting, by Kafka's name; repeatable."
    ),
]


def settings_of(pairs: list[str] | None) -> dict[str, str]:
    """`--conf` as a mapping."""
    settings: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise BarnabasError(f"--conf {pair}: write it as spark.KEY=VALUE.")
        settings[key] = value
    return settings
