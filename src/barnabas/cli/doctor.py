"""`barnabas doctor`: what on this machine, or about a broker, could be in the way."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.client import DEFAULT_BOOTSTRAP
from barnabas.cli.ending import FAILED
from barnabas.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from barnabas.cli.checkup import Finding

EXAMPLES: Final = """\b
Examples:
  barnabas doctor
  barnabas doctor --bootstrap broker.example:9092 --probe
  barnabas doctor --data /var/lib/barnabas --json
"""
_MARKS: Final = {"ok": "ok  ", "warning": "warn", "problem": "FAIL"}


def doctor(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            envvar="BARNABAS_BOOTSTRAP",
            metavar="HOST:PORT",
            help=f"The broker to look at.  [default: {DEFAULT_BOOTSTRAP}, if one is there]",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="A data directory to look at.")
    ] = None,
    with_probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Make a topic, send a record, read it, and delete the topic again."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine, a data directory and a broker; exit 1 when something is wrong.

    Only looks, unless --probe is given.
    """
    from barnabas.cli.checkup import check_broker, check_data, check_machine

    findings = check_machine()
    if data is not None:
        findings += check_data(data)
    findings += check_broker(bootstrap or DEFAULT_BOOTSTRAP, expected=bootstrap is not None)
    if with_probe:
        from barnabas.cli.probe import probe

        findings.append(probe(bootstrap or DEFAULT_BOOTSTRAP))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            _show(finding)
    if any(finding.verdict == "problem" for finding in findings):
        raise typer.Exit(FAILED)


def _show(finding: "Finding") -> None:
    print(f"{_MARKS[finding.verdict]}  {finding.check:<20} {finding.found}")
