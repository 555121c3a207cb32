"""Transaction scenarios: EndTxn."""

from typing import Final

from tests.compat.clients.txn_probe import Identity, TxnProbe, TxnScenario
from tests.compat.raw import versions


def end_versions(probe: TxnProbe) -> None:
    """EndTxn at every version."""
    probe.topic("ended", 6)
    for version in versions("end_txn"):
        for commit in (True, False):
            name = f"v{version}, {'commit' if commit else 'abort'}"
            who = probe.producer(f"end-{version}-{commit}")
            probe.ends(f"{name} of nothing", who, commit=commit, version=version)
            probe.describes(f"{name} of nothing, described", who)
            now = who.at(probe.state(who.name)["producer_epoch"])
            probe.adds(f"{name}, add", now, {"ended": [version]})
            probe.ends(name, now, commit=commit, version=version)
            probe.describes(f"{name}, described", who)
            probe.ends(f"{name}, again", now, commit=commit, version=version)
            probe.ends(f"{name}, then the opposite", now, commit=not commit, version=version)
            probe.describes(f"{name}, described at the end", who)


def end_wrong(probe: TxnProbe) -> None:
    """EndTxn asked by the wrong ones."""
    probe.topic("wrong-end", 2)
    for version in (0, 1, 3, 4, 5):
        who = probe.producer(f"wrong-end-{version}")
        probe.adds(f"v{version}, add", who, {"wrong-end": [0]})
        for commit in (True, False):
            name = f"v{version}, {'commit' if commit else 'abort'}"
            probe.ends(
                f"{name}, future epoch", who.at(who.epoch + 4), commit=commit, version=version
            )
            probe.ends(
                f"{name}, epoch before", who.at(who.epoch - 1), commit=commit, version=version
            )
            other = who._replace(producer_id=who.producer_id + 500)
            probe.ends(f"{name}, another producer id", other, commit=commit, version=version)
            probe.ends(
                f"{name}, unknown id", Identity("nobody", 5, 0), commit=commit, version=version
            )
            probe.ends(f"{name}, empty id", Identity("", 5, 0), commit=commit, version=version)
        probe.describes(f"v{version}, still open", who)
        probe.ends(f"v{version}, the right one", who, commit=True, version=version)


def end_retries(probe: TxnProbe) -> None:
    """EndTxn retried after the bump."""
    topic_id = probe.topic("retried", 1)
    who = probe.producer("retried")
    probe.writes("write", who, topic_id, 0, version=13)
    after = probe.ends("commit", who, commit=True, version=5)
    probe.ends("commit again with the old epoch: a retry", who, commit=True, version=5)
    probe.ends("abort with the old epoch", who, commit=False, version=5)
    probe.ends("commit with the new epoch: nothing in it", after, commit=True, version=5)
    probe.describes("described", who)
    probe.ends("abort with the new epoch: nothing in it", after, commit=False, version=5)
    probe.describes("described after the empty abort", who)
    probe.ends("abort again with that epoch: a retry", after, commit=False, version=5)
    probe.ends("commit with that epoch", after, commit=True, version=5)
    now = who.at(probe.state(who.name)["producer_epoch"])
    probe.writes("write again", now, topic_id, 0, version=13)
    probe.ends("commit with an old epoch while open", who, commit=True, version=5)
    probe.ends("commit by v3", now, commit=True, version=3)
    probe.describes("committed by v3", who)
    probe.ends("commit by v3 again", now, commit=True, version=3)
    probe.ends("commit by v5 again", now, commit=True, version=5)


def deleted_topic(probe: TxnProbe) -> None:
    """A topic is deleted within a transaction."""
    for version in (3, 5):
        name = f"v{version}"
        probe.topic(f"doomed-{version}")
        probe.topic(f"kept-{version}")
        who = probe.producer(f"doomed-{version}")
        for topic in (f"doomed-{version}", f"kept-{version}"):
            if version == 3:
                probe.adds(f"{name}, add {topic}", who, {topic: [0]})
            probe.writes(
                f"{name}, write {topic}", who, topic, 0, version=11 if version == 3 else 12
            )
        probe.ask(
            f"{name}, delete",
            "delete_topics",
            5,
            {"topic_names": [f"doomed-{version}"], "timeout": 10_000},
        )
        probe.describes(f"{name}, described after it", who)
        probe.writes(f"{name}, write to the deleted one", who, f"doomed-{version}", 1, version=12)
        probe.ends(f"{name}, commit", who, commit=True, version=version)
        probe.describes(f"{name}, committed", who)
        probe.reads(f"{name}, the other topic", f"kept-{version}")


def exhausted(probe: TxnProbe) -> None:
    """A producer id whose epochs run out."""
    who = probe.producer("exhausted")
    body = {
        "transactional_id": who.name,
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    epoch = who.epoch
    while epoch < 32_764:
        answer = probe.quietly("init_producer_id", 5, body)
        if answer["error_code"] != "NONE":
            raise AssertionError(f"at epoch {epoch}: {answer}")
        epoch = answer["producer_epoch"]
    probe.topic("exhausted")
    now = who.at(epoch)
    probe.describes("nearly", who)
    for n in range(4):
        probe.writes(f"write {n}", now, "exhausted", 0, version=12)
        probe.describes(f"open {n}", who)
        old, now = now, probe.ends(f"commit {n}", now, commit=True, version=5)
        probe.describes(f"committed {n}", who)
        probe.ends(f"commit {n} again", old, commit=True, version=5)
    probe.ask("init", "init_producer_id", 5, body)
    probe.producers_of("the producers", "exhausted")
    probe.reads("read", "exhausted")


SCENARIOS: Final[tuple[TxnScenario, ...]] = (
    end_versions, end_wrong, end_retries, deleted_topic, exhausted,
)  # fmt: skip
