"""Transaction scenarios of a broker that aborts and forgets soon."""

import time
from typing import Final

from tests.compat.clients.txn_probe import TxnProbe, TxnScenario, add, init

SHORT_MS: Final = 1000


def timed_out(probe: TxnProbe) -> None:
    """A transaction times out."""
    probe.topic("late", 6)
    for version in (3, 5):
        name = f"v{version}"
        who = probe.producer(f"late-{version}", SHORT_MS)
        probe.adds(f"{name}, add", who, {"late": [version]})
        probe.writes(f"{name}, write", who, "late", 0, partition=version)
        probe.await_state(who.name, "CompleteAbort")
        probe.describes(f"{name}, timed out", who)
        probe.ends(f"{name}, commit", who, commit=True, version=version)
        probe.ends(f"{name}, abort", who, commit=False, version=version)
        probe.writes(f"{name}, write after it", who, "late", 1, partition=version)
        probe.writes(
            f"{name}, write after it by v12", who, "late", 1, version=12, partition=version
        )
        probe.adds(f"{name}, add after it", who, {"late": [version]})
        probe.ask(
            f"{name}, add after it by v5",
            "add_partitions_to_txn",
            5,
            add(who, {"late": [version]}, 5),
        )
        probe.ask(
            f"{name}, the old claim",
            "init_producer_id",
            5,
            init(who.name, SHORT_MS, who.producer_id, who.epoch),
        )
        probe.describes(f"{name}, at the end", who)


def timed_out_implicit(probe: TxnProbe) -> None:
    """A transaction of the new generation times out."""
    probe.topic("late-new")
    who = probe.producer("late-new", SHORT_MS)
    probe.writes("write", who, "late-new", 0, version=12)
    probe.await_state(who.name, "CompleteAbort")
    probe.describes("timed out", who)
    probe.writes("write after it", who, "late-new", 1, version=12)
    probe.ends("commit", who, commit=True, version=5)
    probe.ends("abort", who, commit=False, version=5)
    probe.producers_of("the producers", "late-new")
    probe.ask(
        "the old claim", "init_producer_id", 5, init(who.name, SHORT_MS, who.producer_id, who.epoch)
    )
    probe.describes("at the end", who)
    probe.ask("nothing claimed", "init_producer_id", 5, init(who.name, SHORT_MS))
    probe.reads_both("read", "late-new")


def forgotten(probe: TxnProbe) -> None:
    """A transactional id is forgotten."""
    who = probe.producer("forgotten")
    time.sleep(1)
    probe.await_state(who.name, "")
    probe.describes("forgotten", who)
    probe.ends("commit", who, commit=True)
    probe.ends("commit by v5", who, commit=True, version=5)
    probe.ask(
        "init with its identity",
        "init_producer_id",
        5,
        init(who.name, 5000, who.producer_id, who.epoch),
    )


SCENARIOS: Final[tuple[TxnScenario, ...]] = (timed_out, timed_out_implicit)
FORGETTING: Final[tuple[TxnScenario, ...]] = (forgotten,)
