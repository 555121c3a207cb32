"""`barnabas txn`: list, describe and abort transactions."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.client import DEFAULT_BOOTSTRAP, Bootstrap, admin, errors_as_sentences
from barnabas.cli.output import AsJson, print_json, print_table, readable_time
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.cli.txn_brokers import Transaction

app = typer.Typer(help="List, describe and abort transactions.", no_args_is_help=True)

LIST_EXAMPLES: Final = """\b
Examples:
  barnabas txn list
  barnabas txn list --state ongoing --longer-than 5m
  barnabas txn list --hanging        open in a partition, and nobody will end them
"""
DESCRIBE_EXAMPLES: Final = """\b
Examples:
  barnabas txn describe billing-1
  barnabas txn describe billing-1 billing-2 --json
"""
ABORT_EXAMPLES: Final = """\b
Examples:
  barnabas txn abort billing-1                      whoever has the id is fenced
  barnabas txn abort --partition orders:0           one that hangs in a partition
  barnabas txn abort --partition orders:0 --producer-id 4000 --yes
"""

_STATES: Final = {
    each.lower().replace("_", ""): each
    for each in (
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        "PrepareEpochFence", "Dead",
    )
}  # fmt: skip
_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_HANGING_AFTER: Final = "15m"


@app.command("list", epilog=LIST_EXAMPLES)
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only those in this state, such as ongoing; may be repeated."),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only what is open for longer, such as 30s or 5m."),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Only ids that match it as a whole.")
    ] = None,
    hanging: Annotated[
        bool,
        typer.Option(
            "--hanging",
            help="Those that are open in a partition while no coordinator knows of them; for "
            "longer than --longer-than (15m).",
        ),
    ] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List transactional ids and what they are doing; or transactions that hang."""
    from barnabas.cli.moments import span_ms
    from barnabas.cli.txn_brokers import Filters

    if hanging and (state or pattern):
        raise typer.BadParameter("--hanging goes with --longer-than only.")
    if hanging:
        _list_hanging(bootstrap, span_ms(longer_than or _HANGING_AFTER), as_json=as_json)
        return
    # A broker counts those that never began as open since 1970.
    any_state = _OPEN if longer_than is not None else ()
    filters = Filters(
        states=tuple(_state(each) for each in state) if state else any_state,
        longer_than_ms=-1 if longer_than is None else span_ms(longer_than),
        pattern=pattern,
    )
    from barnabas.cli.txn_brokers import TxnBrokers

    with errors_as_sentences(), TxnBrokers(admin(bootstrap)) as brokers:
        found = brokers.transactions(filters)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": each.coordinator,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in found
            ]
        )
        return
    print_table(
        ["transactional id", "coordinator", "producer id", "state"],
        [[each.transactional_id, each.coordinator, each.producer_id, each.state] for each in found],
    )


def _state(given: str) -> str:
    name = _STATES.get(given.lower().replace("_", "").replace("-", ""))
    if name is None:
        known = ", ".join(_STATES.values())
        raise typer.BadParameter(f"{given}: a state is one of {known}.", param_hint="--state")
    return name


def _list_hanging(bootstrap: str, longer_than_ms: int, *, as_json: bool) -> None:
    from barnabas.cli.txn_brokers import TxnBrokers
    from barnabas.cli.txn_hanging import hanging

    with errors_as_sentences(), TxnBrokers(admin(bootstrap)) as brokers:
        found = hanging(brokers, longer_than_ms)
    rows = [
        {
            "topic": each.producer.partition[0],
            "partition": each.producer.partition[1],
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.epoch,
            "start_offset": each.producer.start_offset,
            "last_timestamp": each.producer.last_ms,
            "transactional_id": each.transactional_id,
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
        return
    titles = ["topic", "partition", "producer id", "epoch", "start offset", "last record", "owner"]
    print_table(
        titles,
        [
            [*list(row.values())[:5], readable_time(each.producer.last_ms), each.transactional_id]
            for row, each in zip(rows, found, strict=True)
        ],
    )


@app.command("describe", epilog=DESCRIBE_EXAMPLES)
def describe(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Transactional ids.")],
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the state of transactional ids, and the partitions of what is open."""
    from barnabas.cli.txn_brokers import TxnBrokers

    with errors_as_sentences(), TxnBrokers(admin(bootstrap)) as brokers:
        found = brokers.describe(ids)
    now_ms = round(time.time() * 1000)
    named = [found[name] for name in dict.fromkeys(ids) if name in found]
    shown = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "coordinator": each.coordinator,
            "producer_id": each.producer_id,
            "producer_epoch": each.epoch,
            "timeout_ms": each.timeout_ms,
            "started": each.start_ms if each.start_ms >= 0 else None,
            "open_for_ms": now_ms - each.start_ms if _is_open(each) else None,
            "partitions": [{"topic": topic, "partition": at} for topic, at in each.partitions],
        }
        for each in named
    ]
    if as_json:
        print_json(shown)
    else:
        for number, (each, row) in enumerate(zip(named, shown, strict=True)):
            if number:
                print()
            _show(row, readable_time(each.start_ms))
    missing = [name for name in ids if name not in found]
    if missing:
        raise BarnabasError(
            f"There is no transactional id {', '.join(missing)}: `barnabas txn list` shows those "
            "there are."
        )


def _is_open(each: "Transaction") -> bool:
    return each.state in _OPEN and each.start_ms >= 0


def _show(row: Mapping[str, object], started: str) -> None:
    partitions = row["partitions"]
    print(f"{row['transactional_id']}: {row['state']}")
    print(f"  producer     {row['producer_id']}, epoch {row['producer_epoch']}")
    print(f"  coordinator  broker {row['coordinator']}")
    print(f"  timeout      {row['timeout_ms']} ms")
    if row["open_for_ms"] is not None:
        print(f"  started      {started}, {row['open_for_ms']} ms ago")
    elif row["started"] is not None:
        print(f"  last began   {started}")
    if isinstance(partitions, list) and partitions:
        names = ", ".join(f"{each['topic']}:{each['partition']}" for each in partitions)
        print(f"  partitions   {names}")


@app.command("abort", epilog=ABORT_EXAMPLES)
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="A transactional id.")
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(metavar="TOPIC:P", help="Instead of an id: what is open in this partition."),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(help="With --partition: whose, if several are open.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort the open transaction of an id, or one that hangs in a partition.

    By id is the safe way: its producer is fenced, and the coordinator ends the transaction
    everywhere. By partition only that partition is told, for what no coordinator knows of any
    more: `barnabas txn list --hanging`.
    """
    if (transactional_id is None) == (partition is None):
        raise typer.BadParameter("name a transactional id, or a --partition.")
    if producer_id is not None and partition is None:
        raise typer.BadParameter("--producer-id goes with --partition.")
    what = transactional_id or f"what is open in {partition}"
    client = admin(bootstrap)
    if not yes:
        typer.confirm(f"Abort {what}?", abort=True, err=as_json)
    from barnabas.cli.txn_brokers import TxnBrokers
    from barnabas.cli.txn_hanging import abort_in_partition, abort_transaction

    with errors_as_sentences(), TxnBrokers(client) as brokers:
        if transactional_id is not None:
            before = abort_transaction(brokers, transactional_id)
            done: dict[str, object] = {"aborted": transactional_id, "was": before.state}
            sentence = f"{transactional_id} was {before.state}; its producer is fenced."
        else:
            place = _place(partition or "", client)
            ended = abort_in_partition(brokers, place, producer_id)
            done = {"aborted": partition, "producer_id": ended.producer_id}
            sentence = f"The transaction of producer {ended.producer_id} in {partition} is aborted."
    if as_json:
        print_json(done)
    else:
        print(sentence)


def _place(given: str, client: object) -> tuple[str, int]:
    from barnabas.cli.client import existing_topic

    name, colon, number = given.rpartition(":")
    if not colon or not (number.isascii() and number.isdigit()):
        raise typer.BadParameter(f"{given}: write it as topic:partition.", param_hint="--partition")
    if int(number) not in existing_topic(client, name).partitions:
        raise BarnabasError(f"{name} has no partition {number}.")
    return name, int(number)
