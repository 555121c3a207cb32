"""Transaction scenarios: WriteTxnMarkers, as a coordinator would send them."""

from typing import Any, Final

from tests.compat.clients.txn_probe import Identity, TxnProbe, TxnScenario, init
from tests.compat.raw import Plain

API: Final = "write_txn_markers"


def markers(who: Identity, topics: dict[str, list[int]], **more: Any) -> Plain:
    """A WriteTxnMarkers body with one marker."""
    marker = {
        "producer_id": who.producer_id,
        "producer_epoch": who.epoch,
        "transaction_result": more.get("commit", True),
        "topics": [{"name": name, "partition_indexes": parts} for name, parts in topics.items()],
        "coordinator_epoch": more.get("coordinator_epoch", 0),
        "transaction_version": more.get("transaction_version", 0),
    }
    return {"markers": [marker]}


def unknown(probe: TxnProbe) -> None:
    """Markers for unknown partitions and producers."""
    probe.topic("marked")
    stranger = Identity("", 9_000_001, 0)
    for version in (1, 2):
        probe.ask(f"v{version}, unknown topic", API, version, markers(stranger, {"nope": [0]}))
        probe.ask(
            f"v{version}, unknown partition", API, version, markers(stranger, {"marked": [0, 9]})
        )
        probe.ask(f"v{version}, no topics", API, version, markers(stranger, {}))
        probe.ask(f"v{version}, no markers", API, version, {"markers": []})
        probe.ask(f"v{version}, invalid topic name", API, version, markers(stranger, {"a/b": [0]}))
    probe.producers_of("unknown producer, described", "marked")
    probe.ask(
        "abort of an unknown producer", API, 1, markers(stranger, {"marked": [0]}, commit=False)
    )
    probe.ask("negative producer id", API, 1, markers(Identity("", -1, -1), {"marked": [0]}))
    probe.ask("negative epoch", API, 1, markers(Identity("", 9_000_002, -1), {"marked": [0]}))
    probe.ask(
        "coordinator epoch -1",
        API,
        1,
        markers(Identity("", 9_000_003, 0), {"marked": [0]}, coordinator_epoch=-1),
    )
    probe.ask(
        "into __transaction_state",
        API,
        1,
        markers(Identity("", 9_000_004, 0), {"__transaction_state": [0]}),
    )
    probe.ask(
        "into __consumer_offsets",
        API,
        1,
        markers(Identity("", 9_000_005, 0), {"__consumer_offsets": [0]}),
    )
    two = markers(Identity("", 9_000_006, 0), {"marked": [0]})
    two["markers"] += markers(
        Identity("", 9_000_007, 0), {"marked": [0], "nope": [1]}, commit=False
    )["markers"]
    probe.ask("two markers", API, 1, two)
    probe.reads_both("what is there", "marked")


def epochs(probe: TxnProbe) -> None:
    """Markers with all sorts of epochs."""
    for version in (0, 1, 2):
        topic = f"marked-{version}"
        probe.topic(topic)
        who = probe.producer(topic)
        probe.adds(f"TV{version}, add", who, {topic: [0]})
        probe.writes(f"TV{version}, write", who, topic, 0)

        def ask(
            label: str,
            epoch: int,
            *,
            version: int = version,
            topic: str = topic,
            who: Identity = who,
            **more: Any,
        ) -> None:
            body = markers(who.at(epoch), {topic: [0]}, transaction_version=version, **more)
            probe.ask(f"TV{version}, {label}", API, 2, body)

        ask("older epoch", -1)
        if version == 2:
            ask("the same epoch", 0)
        ask("two above", 2, coordinator_epoch=5)
        ask("the same coordinator epoch", 3, coordinator_epoch=5)
        ask("older coordinator epoch", 4, coordinator_epoch=4)
        ask("the epoch of before", 2, coordinator_epoch=5)
        ask("an epoch below", 1, coordinator_epoch=5)
        probe.producers_of(f"TV{version}, described", topic)
        probe.writes(f"TV{version}, the old producer writes", who, topic, 1)
        probe.reads_both(f"TV{version}, read", topic)


def hanging(probe: TxnProbe) -> None:
    """A hanging transaction is aborted from outside."""
    probe.topic("hanging")
    who = probe.producer("hanging")
    probe.adds("add", who, {"hanging": [0]})
    probe.writes("write", who, "hanging", 0)
    found = probe.producers_of("who hangs", "hanging")
    row = found["topics"][0]["partitions"][0]["active_producers"][0]
    epoch = max(0, row["coordinator_epoch"])
    probe.ask(
        "abort as admin tools do",
        API,
        1,
        markers(who, {"hanging": [0]}, commit=False, coordinator_epoch=epoch),
    )
    probe.producers_of("afterwards", "hanging")
    probe.reads_both("afterwards", "hanging")
    probe.describes("the coordinator knows nothing of it", who)
    probe.writes("the producer goes on", who, "hanging", 1)
    probe.ends("and commits", who, commit=True)
    probe.reads_both("at the end", "hanging")
    probe.ask("init", "init_producer_id", 5, init(who.name))


SCENARIOS: Final[tuple[TxnScenario, ...]] = (unknown, epochs, hanging)
