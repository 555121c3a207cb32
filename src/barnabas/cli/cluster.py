"""`barnabas cluster`: how a cluster is, and what its operator does to it."""

from typing import Annotated, Final

import typer

from barnabas.cli.client import DEFAULT_BOOTSTRAP, Bootstrap
from barnabas.cli.output import AsJson, print_json

app = typer.Typer(
    help="See how a cluster is; spread its load, empty a broker, restart them one by one.",
    no_args_is_help=True,
)

STATUS_EXAMPLES: Final = """\b
Examples:
  barnabas cluster status
  barnabas cluster status --json | jq '.under_replicated'
  watch barnabas cluster status
"""
BALANCE_EXAMPLES: Final = """\b
Examples:
  barnabas cluster balance --dry-run             what would be moved, and how many bytes
  barnabas cluster balance --throttle 20000000   copy 20 MB a second at the most
  barnabas cluster balance --leaders             move leaders alone: nothing is copied
  barnabas cluster balance --cancel              take back what an interrupted one has begun
"""
DRAIN_EXAMPLES: Final = """\b
Examples:
  barnabas cluster drain 3 --dry-run
  barnabas cluster drain 3 --throttle 20000000
  barnabas cluster drain 3 --cancel              it is to stay: take back what is under way
"""
ROLL_EXAMPLES: Final = """\b
Examples:
  barnabas cluster roll --data ./barnabas-data   brokers of barnabas up --brokers N
  barnabas cluster roll --command 'ssh {host} systemctl restart barnabas-broker'
  barnabas cluster roll --command 'docker restart broker-{id}' --broker 2 --broker 3
"""

Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        min=1,
        max=2**63 - 1,
        metavar="BYTES",
        help="Copy so many bytes a second at the most into each broker and out of it; traffic of "
        "clients, and of replicas that stay, is not counted.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Cancel = Annotated[
    bool,
    typer.Option("--cancel", help="Take back every move under way, and remove the throttle."),
]


def _check_not_both(dry_run: bool, cancel: bool) -> None:
    if dry_run and cancel:
        raise typer.BadParameter("--dry-run and --cancel exclude each other.")


@app.command("status", epilog=STATUS_EXAMPLES)
def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Brokers, the controller, and every partition that is not as it should be.

    For each broker: its rack, how many partitions it leads and holds, their bytes, and how many of
    its replicas are not in sync. Then partitions that are offline (nobody leads them), that are
    under min.insync.replicas (writes with acks=all are refused), or under-replicated; and moves of
    replicas, with how much is copied.
    """
    from barnabas.cli.cluster_link import ClusterLink
    from barnabas.cli.cluster_status import gather, lines

    with ClusterLink(bootstrap) as link:
        found = gather(link)
    print_json(found.as_object()) if as_json else print(lines(found))


@app.command("balance", epilog=BALANCE_EXAMPLES)
def balance(
    throttle: Throttle = None,
    leaders: Annotated[
        bool, typer.Option("--leaders", help="Leaders alone; no replica is copied.")
    ] = False,
    dry_run: DryRun = False,
    cancel: Cancel = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Give every broker its share of replicas, bytes and leaders, with as few moves as that needs.

    Replicas of a partition go to different racks while there are racks enough; then every broker
    holds as many replicas as the others, and about as many bytes; then every broker leads as many
    partitions. Run it after a broker was added. Clients notice nothing but new leaders.

    It can be interrupted at any time: moves that have begun go on by themselves, and running it
    again finishes the rest.
    """
    from barnabas.cli.cluster_commands import Choice, run_balance

    _check_not_both(dry_run, cancel)
    run_balance(Choice(bootstrap, throttle, dry_run, cancel, as_json), leaders_only=leaders)


@app.command("drain", epilog=DRAIN_EXAMPLES)
def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The number of the broker.")],
    throttle: Throttle = None,
    dry_run: DryRun = False,
    cancel: Cancel = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Move everything off one broker, so that it can be removed for good.

    From the beginning it is given nothing new (it is cordoned), and when this returns it holds
    nothing: stop it whenever you like. A broker that is dead can be drained as well: what it held
    is copied from others. It is refused when too few brokers would be left for a topic's replicas.

    It can be interrupted and run again; --cancel gives the broker back what is still under way, and
    lets it take part again.
    """
    from barnabas.cli.cluster_commands import Choice, run_drain

    _check_not_both(dry_run, cancel)
    run_drain(Choice(bootstrap, throttle, dry_run, cancel, as_json), broker)


@app.command("roll", epilog=ROLL_EXAMPLES)
def roll(
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The directory of `barnabas up --brokers N`.")
    ] = "barnabas-data",
    command: Annotated[
        str | None,
        typer.Option(
            metavar="SHELL",
            help="How a broker is restarted elsewhere; {id}, {host} and {port} are filled in.",
        ),
    ] = None,
    broker: Annotated[
        list[int] | None,
        typer.Option("--broker", metavar="ID", help="Only this one; several are allowed."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(min=1, max=86_400, metavar="SECONDS", help="How long one broker may take."),
    ] = 600.0,
    allow_pause: Annotated[
        bool,
        typer.Option(
            "--allow-pause",
            help="Go on though a partition takes no writes meanwhile (one replica).",
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Restart all brokers, one at a time, so that clients are always served.

    Each hands over what it leads before it stops, and the next one is not touched before every
    replica of every partition is in sync again; the controller comes last. At the end preferred
    leaders lead again. It is refused while a partition is under min.insync.replicas, or would be.

    Brokers of `barnabas up --brokers N` on this machine are found in its --data directory. For
    others --command says how: it may be anything that stops a broker with SIGTERM and starts it
    again, and need not wait for that.
    """
    from barnabas.cli.cluster_roll import RollChoice, run_roll

    run_roll(RollChoice(bootstrap, data, command, broker or [], timeout, allow_pause, as_json))
