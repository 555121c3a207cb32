"""`barnabas config`: show and change settings of topics and brokers while they run."""

from typing import Annotated, Final

import typer

from barnabas.cli.client import DEFAULT_BOOTSTRAP, Bootstrap, pairs
from barnabas.cli.config_asks import (
    DEFAULT,
    Resource,
    asked,
    change,
    check_keys,
    settings_of,
)
from barnabas.cli.output import AsJson, print_json, print_table

app = typer.Typer(
    help="Show and change settings of topics and brokers while they run.", no_args_is_help=True
)

DESCRIBE_EXAMPLES: Final = """\b
Examples:
  barnabas config describe topic:orders
  barnabas config describe broker:1 --all
  barnabas config describe broker:1 log.retention.ms min.insync.replicas --json
  barnabas config describe brokers
"""
SET_EXAMPLES: Final = """\b
Examples:
  barnabas config set topic:orders retention.ms=86400000
  barnabas config set brokers log.retention.ms=86400000 compression.type=zstd
  barnabas config set broker:1 max.connections=500 --check
"""
UNSET_EXAMPLES: Final = """\b
Examples:
  barnabas config unset topic:orders retention.ms
  barnabas config unset brokers compression.type
"""

Whose = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE",
        help="topic:NAME, broker:ID, or brokers: what counts for every broker that is not told "
        "otherwise.",
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Only see whether it would be taken; change nothing.")
]


@app.command("describe", epilog=DESCRIBE_EXAMPLES)
def describe(
    resource: Whose,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these keys.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show keys at their default, too.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show settings, and who has set them: by default those that somebody has."""
    whose = Resource.parsed(resource)
    with asked(bootstrap, whose) as broker:
        found = settings_of(broker, whose, keys or ())
    missing = sorted(set(keys or ()) - {each.name for each in found})
    if missing:
        check_keys(bootstrap, whose, missing)
    shown = [each for each in found if all_ or keys or each.source != DEFAULT]
    if as_json:
        print_json([each.as_object() for each in shown])
        return
    print_table(
        ("setting", "value", "set by", "can be changed"),
        [
            (
                each.name,
                "(hidden)" if each.sensitive else each.value,
                each.set_by,
                "at a restart" if each.read_only else "now",
            )
            for each in shown
        ],
    )


@app.command("set", epilog=SET_EXAMPLES)
def set_(
    resource: Whose,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    check: Check = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Set keys: all of them, or, if one is refused, none."""
    _change(resource, dict(pairs("KEY=VALUE", settings)), check, bootstrap)


@app.command("unset", epilog=UNSET_EXAMPLES)
def unset(
    resource: Whose,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    check: Check = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Let keys go back to what counts without them."""
    whose = Resource.parsed(resource)
    # A broker, as Kafka's, unsets whatever it is told to, also what does not exist.
    check_keys(bootstrap, whose, keys, to_change=True)
    with asked(bootstrap, whose) as broker:
        there = {each.name for each in settings_of(broker, whose) if each.source == whose.source}
    if there & set(keys):
        _change(resource, dict.fromkeys(key for key in keys if key in there), check, bootstrap)
    for key in keys:
        if key not in there:
            print(f"{key} of {whose} was not set.")


def _change(resource: str, changes: dict[str, str | None], check: bool, bootstrap: str) -> None:
    whose = Resource.parsed(resource)
    with asked(bootstrap, whose) as broker:
        change(broker, whose, changes, check_only=check)
    print(f"The settings of {whose} can be changed so." if check else f"Changed {whose}.")
