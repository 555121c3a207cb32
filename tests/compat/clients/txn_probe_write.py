"""Transaction scenarios: Produce within transactions."""

from typing import Final

from tests.compat.batches import Rec, make_batch
from tests.compat.clients.txn_probe import NOW_MS, ONE, Identity, TxnProbe, TxnScenario


def write_versions(probe: TxnProbe) -> None:
    """Produce at versions of both generations, nothing added before."""
    topic_id = probe.topic("unadded", 14)
    for version in (3, 8, 9, 10, 11, 12, 13):
        who = probe.producer(f"unadded-{version}")
        topic = topic_id if version >= 13 else "unadded"
        probe.writes(f"v{version}", who, topic, 0, version=version, partition=version)
        probe.describes(f"v{version}, described", who)
        probe.writes(f"v{version}, second batch", who, topic, 1, version=version, partition=version)
        probe.ends(f"v{version}, commit", who, commit=True, version=5 if version > 11 else 3)


def write_classic(probe: TxnProbe) -> None:
    """Produce after AddPartitionsToTxn."""
    probe.topic("classic", 3)
    who = probe.producer("classic")
    probe.adds("add", who, {"classic": [0]})
    probe.writes("first", who, "classic", 0)
    probe.writes("duplicate", who, "classic", 0)
    probe.writes("gap", who, "classic", 7)
    probe.writes("second", who, "classic", 1)
    probe.writes("acks=1", who, "classic", 2, acks=1)
    probe.writes("acks=0 is not allowed with a transactional id", who, "classic", 3, acks=-2)
    probe.writes("plain idempotent batch in the transaction", who, "classic", 3, attributes=0)
    probe.writes("plain batch without producer", who, "classic", 3, records=make_batch(ONE))
    probe.writes("no transactional id in the request", who, "classic", 3, transactional_id=None)
    probe.writes(
        "another transactional id in the request", who, "classic", 3, transactional_id="other"
    )
    probe.writes("empty transactional id in the request", who, "classic", 4, transactional_id="")
    probe.writes("future epoch", who.at(5), "classic", 0)
    probe.writes("old epoch", who.at(-1), "classic", 0)
    probe.writes("a partition that was not added", who, "classic", 0, partition=1)
    probe.writes("a partition that was not added, sequence 9", who, "classic", 9, partition=2)
    other = Identity(who.name, who.producer_id + 700, 0)
    probe.writes("another producer id", other, "classic", 0)
    probe.writes("control batch", who, "classic", 5, attributes=0x30)
    probe.writes("unknown partition", who, "classic", 0, partition=9)
    probe.writes("unknown topic", who, "no-such", 0)
    probe.reads_both("while open", "classic")
    probe.ends("commit", who, commit=True)
    probe.writes("after the commit", who, "classic", 5)
    probe.writes("after the commit, no transactional id", who, "classic", 5, transactional_id=None)
    probe.writes("after the commit, plain idempotent", who, "classic", 5, attributes=0)
    probe.adds("add again", who, {"classic": [0]})
    probe.writes("sequence goes on", who, "classic", 6)
    probe.writes("sequence goes on, as it should", who, "classic", 5)
    probe.ends("abort", who, commit=False)
    probe.producers_of("at the end", "classic")
    probe.reads_both("at the end", "classic")


def write_implicit(probe: TxnProbe) -> None:
    """Produce that adds by itself."""
    topic_id = probe.topic("implicit", 3)
    who = probe.producer("implicit")
    probe.writes("gap first", who, "implicit", 3, version=12)
    probe.describes("described after a gap", who)
    probe.writes("first", who, "implicit", 0, version=12)
    probe.writes("another partition by v13", who, topic_id, 0, version=13, partition=1)
    probe.writes("future epoch", who.at(who.epoch + 3), "implicit", 0, version=12)
    probe.writes("old epoch", who.at(who.epoch - 1), "implicit", 0, version=12)
    probe.writes(
        "old epoch, another partition",
        who.at(who.epoch - 1),
        "implicit",
        0,
        version=12,
        partition=2,
    )
    probe.writes(
        "future epoch, another partition",
        who.at(who.epoch + 1),
        "implicit",
        0,
        version=12,
        partition=2,
    )
    probe.writes("unknown partition", who, "implicit", 0, version=12, partition=9)
    probe.writes("unknown topic", who, "no-such", 0, version=12)
    probe.writes("gap", who, "implicit", 5, version=12)
    probe.writes("duplicate", who, "implicit", 0, version=12)
    probe.writes("plain idempotent batch", who, "implicit", 1, version=12, attributes=0)
    probe.writes(
        "another transactional id", who, "implicit", 2, version=12, transactional_id="other"
    )
    probe.writes("another transactional id, another partition", who, "implicit", 0, version=12,
                 transactional_id="other", partition=2)  # fmt: skip
    probe.writes("no transactional id", who, "implicit", 2, version=12, transactional_id=None)
    probe.describes("described while open", who)
    probe.producers_of("open", "implicit")
    after = probe.ends("commit", who, commit=True, version=5)
    probe.describes("described when committed", who)
    probe.writes("old epoch after the commit", who, "implicit", 3, version=12)
    probe.writes("old epoch after the commit, sequence 0", who, "implicit", 0, version=12)
    probe.writes(
        "old epoch after the commit, partition without it",
        who,
        "implicit",
        0,
        version=12,
        partition=2,
    )
    probe.writes("new epoch, sequence goes on", after, "implicit", 3, version=12)
    probe.writes("new epoch, sequence 0", after, "implicit", 0, version=12)
    probe.producers_of("second", "implicit")
    last = probe.ends("abort", after, commit=False, version=5)
    probe.writes("v11 without adding, new epoch", last, "implicit", 0, version=11)
    probe.reads_both("at the end", "implicit")
    probe.producers_of("at the end", "implicit")


def write_mixed(probe: TxnProbe) -> None:
    """Both generations in one transaction."""
    probe.topic("mixed-gen", 3)
    who = probe.producer("mixed-gen")
    probe.adds("add by v3", who, {"mixed-gen": [0]})
    probe.writes("write by v12", who, "mixed-gen", 0, version=12)
    probe.writes("write by v12 another partition", who, "mixed-gen", 0, version=12, partition=1)
    probe.describes("described", who)
    probe.ends("commit by v4", who, commit=True, version=4)
    probe.describes("committed by v4", who)
    probe.writes("v12 with the same epoch", who, "mixed-gen", 1, version=12)
    probe.ends("commit by v5", who, commit=True, version=5)
    probe.describes("committed by v5", who)
    probe.producers_of("at the end", "mixed-gen")
    probe.reads_both("at the end", "mixed-gen")


def write_odd_topics(probe: TxnProbe) -> None:
    """Produce into special topics within a transaction."""
    probe.make_topic("txn-keyed", 1, cleanup_policy="compact")
    who = probe.producer("odd-topics")
    probe.adds("add", who, {"txn-keyed": [0]})
    probe.writes("no key to a compacted topic", who, "txn-keyed", 0)
    probe.writes("a key to a compacted topic", who, "txn-keyed", 0,
                 records=who.batch(0, [Rec(key=b"k", timestamp=NOW_MS)]))  # fmt: skip
    probe.writes("into __consumer_offsets", who, "__consumer_offsets", 0)
    probe.writes("into __transaction_state", who, "__transaction_state", 0)
    probe.writes("into __transaction_state by v12", who, "__transaction_state", 0, version=12)
    probe.describes("described", who)
    probe.ends("abort", who, commit=False)


def write_two_hands(probe: TxnProbe) -> None:
    """Two connections share a producer, each with a partition of its own."""
    probe.topic("hands", 2)
    who = probe.producer("hands")
    for hand, partition in (("left", 0), ("right", 1)):
        body = {"acks": -1, "timeout": 10_000, "transactional_id": who.name,
                "topic_data": [{"name": "hands", "partition_data": [
                    {"index": partition, "records": who.batch(0)}]}]}  # fmt: skip
        probe.ask(f"the {hand} hand writes", "produce", 12, body, who=hand)
    probe.describes("described", who)
    probe.ends("commit", who, commit=True, version=5)
    probe.reads("read", "hands")


SCENARIOS: Final[tuple[TxnScenario, ...]] = (
    write_versions, write_classic, write_implicit, write_mixed, write_odd_topics, write_two_hands,
)  # fmt: skip
