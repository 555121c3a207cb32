"""`barnabas events`: what happens to a cluster, as it happens."""

import sys
import time
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from barnabas.cli.client import DEFAULT_BOOTSTRAP, Bootstrap
from barnabas.cli.output import note, print_json, readable_time

EXAMPLES: Final = """\b
Examples:
  barnabas events                     how things are: brokers, topics, what is wrong
  barnabas events --follow            what happens from now on, until Ctrl-C
  barnabas events --follow --json | jq -c 'select(.event == "broker-dead")'
  barnabas events --follow --topic orders
"""


def events(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Stay, and tell what happens from now on.")
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC", help="Of topics, tell of this one only; several are allowed."
        ),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(
            min=0.05, max=86_400, metavar="SECONDS", help="How often the cluster is looked at."
        ),
    ] = 0.5,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print an object a line, for programs.")
    ] = False,
) -> None:
    """Tell what happens to a cluster: brokers, the controller, topics, leaders, replicas.

    Brokers that joined, died and came back; another controller; topics created, deleted and made
    larger; leaders that moved, partitions that went offline; in-sync replicas that became fewer or
    more; moves of replicas that began and ended. It compares what a broker tells at one moment
    with what it told before: of two changes between two looks the sum is told, but no election is
    missed, as epochs count them.
    """
    from dataclasses import replace

    from barnabas.cli.brokers import NoAnswerError
    from barnabas.cli.cluster_link import ClusterLink
    from barnabas.cli.ending import check_somebody_reads
    from barnabas.operating.events import Event, changes, present

    wanted = set(topic or ())

    def tell(found: Iterable[Event]) -> None:
        now_ms = time.time_ns() // 1_000_000
        for event in found:
            if wanted and event.topic is not None and event.topic not in wanted:
                continue
            if as_json:
                print_json(
                    {"time_ms": now_ms, "event": event.kind, **event.facts, "text": event.text}
                )
            else:
                print(f"{readable_time(now_ms)}  {event.text}")
        sys.stdout.flush()

    with ClusterLink(bootstrap) as link:
        before = link.snapshot()
        if not follow:
            tell(present(before))
            return
        known = {*before.brokers, *before.dead}
        silent = False
        while True:
            time.sleep(interval)
            check_somebody_reads()
            try:
                after = link.snapshot()
            except NoAnswerError as error:
                if not silent:
                    note(str(error))
                silent = True
                continue
            silent = False
            if not after.moves_known:
                after = replace(after, moving=before.moving)
            tell(changes(before, after, known))
            known |= after.brokers.keys()
            before = after
