"""`barnabas replay`: an archive's records back into a topic."""

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from barnabas.cli.archive_options import Conf, Master, Properties, Servers, settings_of
from barnabas.cli.client import DEFAULT_BOOTSTRAP, pairs
from barnabas.cli.moments import parse_moment
from barnabas.cli.output import note
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.spark.sink.options import Delivery

EXAMPLES: Final = """\b
Examples:
  barnabas replay archives/orders orders-again
  barnabas replay archives/orders orders-again --from-offset 0:1000 --from-offset 1:950
  barnabas replay archives/orders orders-again --from-offset 0:1000 --to-offset 0:2000
  barnabas replay archives/orders orders-again --since 2026-08-01 --until 2026-08-02
  barnabas replay archives/orders orders-wide --by-key    fewer or more partitions
"""
_PLACE: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,19})")


def replay(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The archive.")],
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Where to; it must be there already.")
    ],
    from_offset: Annotated[
        list[str] | None,
        typer.Option(metavar="P:O", help="Partition P from offset O on; repeatable."),
    ] = None,
    to_offset: Annotated[
        list[str] | None,
        typer.Option(metavar="P:O", help="Partition P up to offset O, without O; repeatable."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, metavar="N", help="Only this one; repeatable.")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Records that are not older: a date, or -10m.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Records that are older.")] = "",
    delivery: Annotated[
        str, typer.Option(metavar="HOW", help="exactly-once or at-least-once.")
    ] = "exactly-once",
    by_key: Annotated[
        bool, typer.Option("--by-key", help="Keys decide the partition, as a producer's would.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also when this replay was done before.")
    ] = False,
    servers: Servers = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
    master: Master = None,
    conf: Conf = None,
    restarts: Annotated[
        int,
        typer.Option(
            min=-1,
            help="How often in a row a driver that died is started again; -1: as often as needed.",
        ),
    ] = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each chunk, and at the end.")
    ] = False,
) -> None:
    """Write an archive into a topic: same partitions, order, keys, values, headers and times.

    --from-offset, --to-offset and --partition choose partitions: only those that they name.

    It goes chunk by chunk, each whole or not at all. A replay that was stopped or killed is gone on
    with by the same command; the plan is in DIR/_replays. One that is done is refused, unless
    --again says that the records shall be there once more.
    """
    from barnabas.spark.archives.jobs import replay_job, run
    from barnabas.spark.archives.replay_plan import Selection
    from barnabas.spark.archives.replaying import Replaying, prepare

    asked = Replaying(
        os.path.abspath(folder),
        topic,
        servers,
        Selection(
            _places("--from-offset", from_offset or ()),
            tuple(sorted(set(partition or ()))),
            since,
            until,
            _places("--to-offset", to_offset or ()),
        ),
        since_ms=parse_moment(since) if since else None,
        until_ms=parse_moment(until) if until else None,
        delivery=cast("Delivery", delivery),
        by_key=by_key,
        again=again,
        kafka=pairs("-X", properties),
    )
    plan, by_broker = prepare(asked)
    if by_broker:
        note(
            f"The topic {topic} has message.timestamp.type=LogAppendTime: its records get the time "
            "at which they are replayed."
        )
    if plan.done:
        note(f"Going on after {plan.done} of {len(plan.chunks)} chunks.")
    settings = settings_of(conf)
    job = replay_job(asked, plan.id, as_json=as_json, master=master, settings=settings)
    code = run(job, restarts=restarts, tell=note)
    if code:
        raise typer.Exit(code)


def _places(option: str, texts: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """In one order, so that the same places are the same replay."""
    found: dict[int, int] = {}
    for text in texts:
        partition, offset = _place(option, text)
        if partition in found:
            raise BarnabasError(
                f"{option} {text}: partition {partition} is given twice; give it once."
            )
        found[partition] = offset
    return tuple(sorted(found.items()))


def _place(option: str, text: str) -> tuple[int, int]:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise BarnabasError(f"{option} {text}: write a partition and an offset, such as 0:1000.")
    return int(found[1]), int(found[2])
