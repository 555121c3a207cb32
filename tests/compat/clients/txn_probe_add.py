"""Transaction scenarios: AddPartitionsToTxn and AddOffsetsToTxn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.compat.clients.txn_probe import Identity, TxnProbe, TxnScenario, add, add_offsets
from tests.compat.raw import versions

ADD: Final = "add_partitions_to_txn"
OFFSETS: Final = "add_offsets_to_txn"
NOBODY: Final = Identity("nobody", 5, 0)


@dataclass(frozen=True)
class _Adder:
    """Asks AddPartitionsToTxn at one version."""

    probe: TxnProbe
    version: int
    verify: bool = False

    def __call__(self, label: str, who: Identity, topics: Mapping[str, Sequence[int]]) -> None:
        body = add(who, topics, self.version, verify=self.verify)
        self.probe.ask(f"v{self.version}, {label}", ADD, self.version, body)


def add_versions(probe: TxnProbe) -> None:
    """AddPartitionsToTxn at every version."""
    probe.topic("added", 3)
    for version in versions(ADD):
        ask = _Adder(probe, version)
        who = probe.producer(f"add-v{version}")
        ask("right", who, {"added": [0, 1]})
        probe.describes(f"v{version}, described", who)
        ask("again", who, {"added": [1, 0]})
        ask("unknown partition", who, {"added": [2, 9]})
        ask("unknown topic", who, {"added": [2], "no-topic": [0, 1]})
        ask("wrong epoch", who.at(7), {"added": [2]})
        ask("older epoch", who.at(-1), {"added": [2]})
        ask("wrong producer id", who._replace(producer_id=who.producer_id + 500), {"added": [2]})
        ask("unknown id", NOBODY, {"added": [2]})
        ask("empty id", who._replace(name=""), {"added": [2]})
        ask("no topics", who, {})
        ask("a topic without partitions", who, {"added": []})
        ask("one partition twice", who, {"added": [2, 2]})
        ask("an invalid topic name", who, {"no/such topic": [0]})
        ask("internal topics", who, {"__consumer_offsets": [0], "__transaction_state": [0]})
        probe.describes(f"v{version}, described at the end", who)
        probe.ends(f"v{version}, abort", who, commit=False)


def verify(probe: TxnProbe) -> None:
    """AddPartitionsToTxn only verifies."""
    probe.topic("verified", 3)
    for version in (4, 5):
        ask = _Adder(probe, version, verify=True)
        who = probe.producer(f"verify-v{version}")
        ask("before anything", who, {"verified": [0]})
        probe.adds(f"v{version}, add", who, {"verified": [0]})
        ask("one in, one not", who, {"verified": [0, 1]})
        ask("an unknown topic", who, {"verified": [0], "nope": [1]})
        ask("wrong epoch", who.at(7), {"verified": [0]})
        ask("unknown id", NOBODY, {"verified": [0]})
        ask("wrong producer id", who._replace(producer_id=who.producer_id + 500), {"verified": [0]})
        probe.ends(f"v{version}, commit", who, commit=True)
        ask("after the commit", who, {"verified": [0]})
        ask("no topics", who, {})
        two = add(who, {"verified": [0]}, version, verify=True)
        two["transactions"] += add(NOBODY, {"verified": [1]}, version)["transactions"]
        probe.ask(f"v{version}, two transactions", ADD, version, two)


def add_nothing(probe: TxnProbe) -> None:
    """AddPartitionsToTxn of no transaction at all."""
    probe.ask("v5", ADD, 5, {"transactions": []})


def add_states(probe: TxnProbe) -> None:
    """AddPartitionsToTxn after transactions."""
    probe.topic("again", 2)
    who = probe.producer("again")
    probe.adds("first", who, {"again": [0]})
    probe.ends("commit", who, commit=True)
    probe.adds("second", who, {"again": [1]})
    probe.describes("second described", who)
    probe.ends("abort", who, commit=False)
    probe.adds("third", who, {"again": [1]})
    probe.ends("commit by v5", who, commit=True, version=5)
    probe.adds("fourth with the epoch before the bump", who, {"again": [1]})
    probe.adds("fourth with the epoch after the bump", who.at(who.epoch + 1), {"again": [1]})
    probe.describes("at the end", who)


def offsets_versions(probe: TxnProbe) -> None:
    """AddOffsetsToTxn at every version."""
    for version in versions(OFFSETS):

        def ask(label: str, who: Identity, group: str, version: int = version) -> None:
            probe.ask(f"v{version}, {label}", OFFSETS, version, add_offsets(who, group))

        who = probe.producer(f"offsets-v{version}")
        ask("right", who, f"group-{version}")
        probe.describes(f"v{version}, described", who)
        ask("again", who, f"group-{version}")
        ask("another group", who, "another")
        ask("empty group", who, "")
        ask("wrong epoch", who.at(7), "g")
        ask("wrong producer id", who._replace(producer_id=who.producer_id + 500), "g")
        ask("unknown id", NOBODY, "g")
        ask("empty id", NOBODY._replace(name=""), "g")
        probe.ends(f"v{version}, commit", who, commit=True)


SCENARIOS: Final[tuple[TxnScenario, ...]] = (
    add_versions,
    verify,
    add_nothing,
    add_states,
    offsets_versions,
)
