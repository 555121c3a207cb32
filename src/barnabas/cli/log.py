"""`barnabas log`: look into the files of a data directory, and check them."""

from typing import Annotated, Final

import typer

from barnabas.cli.ending import FAILED
from barnabas.cli.output import AsJson, note

app = typer.Typer(
    help="Look into the files of a data directory, and check them.", no_args_is_help=True
)

DUMP_EXAMPLES: Final = """\b
Examples:
  barnabas log dump barnabas-data                        every record of every partition
  barnabas log dump barnabas-data/orders-0 --batches     offsets, positions, codecs, producers
  barnabas log dump barnabas-data/orders-0 --json | jq .value
  barnabas log dump barnabas-data/orders-0/00000000000000000000.index
  barnabas log dump barnabas-data/__consumer_offsets-7   commits, groups, members
"""
VERIFY_EXAMPLES: Final = """\b
Examples:
  barnabas log verify barnabas-data
  barnabas log verify barnabas-data/orders-0 --json
"""

Place = Annotated[
    str,
    typer.Argument(metavar="DIR", help="A data directory, a partition's folder, or one file."),
]


@app.command("dump", epilog=DUMP_EXAMPLES)
def dump(
    place: Place,
    records: Annotated[
        bool, typer.Option("--records/--batches", help="Show records, or only their batches.")
    ] = True,
    control: Annotated[
        bool, typer.Option("--control", help="Show the markers that end transactions, too.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Show records of coordinators as the bytes they are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what lies in a log: Barnabas' own, or one that Apache Kafka wrote.

    Files are only read, and a broker may be running on them. With --json every line is one
    object; bytes that are not UTF-8 become {"base64": "..."}. Records of __consumer_offsets and
    __transaction_state are shown as what they say.
    """
    from barnabas.cli.log_dump import (
        Manner,
        dump_batches,
        dump_records,
        dump_small_file,
        is_small_file,
    )

    if is_small_file(place):
        dump_small_file(place, as_json)
        return
    if records:
        damaged = dump_records(place, Manner(control=control, raw=raw, as_json=as_json))
    else:
        damaged = dump_batches(place, as_json)
    if damaged:
        note(f"barnabas: {damaged} damaged; `barnabas log verify` tells more.")
        raise typer.Exit(FAILED)


@app.command("verify", epilog=VERIFY_EXAMPLES)
def verify(place: Place, as_json: AsJson = False) -> None:
    """Check every batch, index, snapshot and epoch of a data directory; exit 1 if any is wrong.

    Nothing is changed. One line a problem, with the file and the byte where it is. A broker may
    be running on the directory.
    """
    from barnabas.cli.log_verify import verify_place

    if verify_place(place, as_json):
        raise typer.Exit(FAILED)
