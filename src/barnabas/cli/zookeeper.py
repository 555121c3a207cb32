"""`barnabas zookeeper`: a real ZooKeeper on this machine, in the foreground."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.foreground import check_loopback, ended_by_signals
from barnabas.cli.quick import ENSEMBLE_MAX
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.world.zookeeper_ensemble import ZooKeeperEnsemble
    from barnabas.world.zookeeper_member import ZooKeeperMember
    from barnabas.world.zookeeper_server import ZooKeeperServer

EXAMPLES: Final = """\b
Examples:
  barnabas zookeeper                                  one server at 127.0.0.1:2181
  barnabas zookeeper --ensemble 3                     three, at 2181, 2182 and 2183
  barnabas zookeeper --port 0 --data /var/lib/zk      any free port; the line says which
\b
One server of three, on each of three machines (2 and 3 there):
  barnabas zookeeper --server 1 --peers zk1,zk2,zk3 --host 0.0.0.0 --allow-insecure
\b
It is Apache ZooKeeper itself, from ZOOKEEPER_HOME if that is set, and otherwise from the
PySpark package (pip install 'barnabas[cluster]'); all else it needs is Java.
"""
_LOOK_S: Final = 0.5


def zookeeper(
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Where clients connect; further servers take the ports after it."
        ),
    ] = 2181,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the servers keep their data and logs.")
    ] = Path("barnabas-zookeeper"),
    ensemble: Annotated[
        int,
        typer.Option(
            min=1,
            max=ENSEMBLE_MAX,
            metavar="N",
            help="How many servers: 3 survive the death of one, 5 of two. An even number is of "
            "no use.",
        ),
    ] = 1,
    server: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=ENSEMBLE_MAX,
            metavar="N",
            help="Start only server N of --peers; the others run on other machines.",
        ),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST,HOST,…",
            help="With --server: all servers of the ensemble, the same on each machine, as host "
            "or host:2888:3888.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    allow_insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure", help="Listen beyond this machine: whoever comes may change it all."
        ),
    ] = False,
) -> None:
    """Start a real ZooKeeper on this machine, for brokers that are to be one cluster.

    One line says where it can be reached, once it can: that is what brokers are told as
    zookeeper.connect. Ctrl-C stops it. A server of an ensemble that dies is told and not started
    again; when too few are left to decide anything, the command ends.

    With --server it is one server, and says that it is ready once it and enough of the others are.
    """
    from barnabas.world.zookeeper_ensemble import ZooKeeperEnsemble
    from barnabas.world.zookeeper_member import ZooKeeperMember, read_peers

    check_loopback(host, allow_insecure, "read and change all of it")
    if server is not None or peers is not None:
        if server is None or peers is None or ensemble != 1:
            raise BarnabasError(
                "One server of several machines is told by --server and --peers, both, and without "
                "--ensemble."
            )
        if not allow_insecure:
            raise BarnabasError(
                "Servers of an ensemble ask nobody who they are: add --allow-insecure if the "
                "network between the machines is trusted."
            )
        _serve_one(
            ZooKeeperMember(
                data.absolute(),
                server,
                read_peers(peers),
                port=port,
                host=host,
            )
        )
        return
    if ensemble > 1 and port + ensemble > 65536:
        raise BarnabasError(f"{ensemble} servers do not fit between port {port} and 65535.")
    started = ZooKeeperEnsemble(data.absolute(), ensemble, port=port, host=host)
    with ended_by_signals(), started:
        print(_ready(started), flush=True)
        _tend(started)


def _serve_one(member: "ZooKeeperMember") -> None:
    """Until it ends: whatever has started this command may start it again."""
    from barnabas.world.zookeeper_jars import version

    which = f"server {member.number} of {member.count}"
    with ended_by_signals(), member:
        print(f"ZooKeeper's {which} waits until a majority is there.", file=sys.stderr, flush=True)
        member.wait_ready()
        print(
            f"ZooKeeper {version()} is ready at {member.server.connect}, {which}; Ctrl-C stops it. "
            f"Data is in {member.directory}.",
            flush=True,
        )
        while member.server.is_running():
            time.sleep(_LOOK_S)
        raise BarnabasError(_ended(member.server))


def _ended(server: "ZooKeeperServer") -> str:
    return (
        f"The ZooKeeper server at {server.connect} has ended ({server.last_words()}); "
        f"see {server.log}."
    )


def _ready(ensemble: "ZooKeeperEnsemble") -> str:
    from barnabas.world.zookeeper_jars import version

    count = len(ensemble.servers)
    servers = f" with {count} servers" if count > 1 else ""
    return (
        f"ZooKeeper {version()} is ready at {ensemble.connect}{servers}; Ctrl-C stops it. "
        f"Data is in {ensemble.directory}."
    )


def _tend(ensemble: "ZooKeeperEnsemble") -> None:
    """Until too few servers are left."""
    told: list[ZooKeeperServer] = []
    while True:
        time.sleep(_LOOK_S)
        count = len(ensemble.servers)
        for server in ensemble.dead():
            if server not in told:
                told.append(server)
                left = count - len(told)
                if 2 * left <= count:
                    raise BarnabasError(_ended(server))
                print(f"{_ended(server)} {left} of {count} go on.", file=sys.stderr, flush=True)
