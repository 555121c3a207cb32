"""Transaction scenarios: FindCoordinator, features, InitProducerId."""

import time
from typing import Final

from tests.compat.clients.group_probe_members import await_coordinator
from tests.compat.clients.txn_probe import Identity, TxnProbe, TxnScenario, init
from tests.compat.raw import versions

INIT: Final = "init_producer_id"


def first_contact(probe: TxnProbe) -> None:
    """The transaction coordinator is looked for."""
    body = {"key": "warm", "key_type": 1, "coordinator_keys": ["warm"]}
    for _ in range(400):
        if probe.quietly("find_coordinator", 2, body)["error_code"] == "NONE":
            break
        time.sleep(0.05)
    probe.producer("warm")
    await_coordinator(probe)
    for version in range(1, 7):
        for label, key in (("an id", "t"), ("an empty id", "")):
            asked = {"key": key, "key_type": 1, "coordinator_keys": [key]}
            probe.ask(f"v{version}, {label}", "find_coordinator", version, asked)
    probe.ask("v6, two ids", "find_coordinator", 6, {"key_type": 1, "coordinator_keys": ["a", "b"]})
    probe.ask("v4, no ids", "find_coordinator", 4, {"key_type": 1, "coordinator_keys": []})


def features(probe: TxnProbe) -> None:
    """The features of a broker."""
    for version in (3, 4):
        answer = probe.quietly(
            "api_versions", version, {"client_software_name": "x", "client_software_version": "1"}
        )
        served = {row["api_key"]: row for row in answer["api_keys"]}
        kept = {key: served.get(key) for key in (22, 24, 25, 26, 27, 28, 61, 65, 66)}
        probe.keep(
            f"v{version}, APIs of transactions",
            f"api_versions v{version}",
            {},
            {str(k): v for k, v in kept.items()},
        )
        for group in ("supported_features", "finalized_features"):
            rows = [row for row in answer[group] if row["name"] == "transaction.version"]
            probe.keep(f"v{version}, {group}", f"api_versions v{version}", {}, {"rows": rows})


def init_versions(probe: TxnProbe) -> None:
    """InitProducerId at every version."""
    for version in versions(INIT):
        probe.ask(f"v{version}, new", INIT, version, init(f"init-v{version}"))
        probe.ask(f"v{version}, again", INIT, version, init(f"init-v{version}"))
        probe.describes(f"v{version}, described", f"init-v{version}")


def init_arguments(probe: TxnProbe) -> None:
    """InitProducerId with odd arguments."""
    for version in (0, 5):
        for timeout in (0, -1, 1, 900_000, 900_001, 2**31 - 1):
            probe.ask(
                f"v{version}, timeout {timeout}",
                INIT,
                version,
                init(f"odd-{version}-{timeout}", timeout),
            )
        probe.ask(f"v{version}, empty id", INIT, version, init(""))
    probe.ask("timeout 0 without a transactional id", INIT, 5, init(None, 0))
    probe.ask("timeout too large without a transactional id", INIT, 5, init(None, 2**31 - 1))
    probe.ask("a long id", INIT, 5, init("x" * 10_000))
    probe.ask("an id with odd letters", INIT, 5, init("ü / \n"))
    probe.ask("id without epoch", INIT, 5, init("odd-1", producer_id=5))
    probe.ask("epoch without id", INIT, 5, init("odd-2", epoch=5))
    probe.ask(
        "both, of an unknown transactional id", INIT, 5, init("odd-3", producer_id=77, epoch=3)
    )
    probe.describes("unknown id after claims", "odd-3")
    probe.ask("negative id and epoch", INIT, 5, init("odd-4", producer_id=-2, epoch=-2))


def claims(probe: TxnProbe) -> None:
    """InitProducerId with a claimed identity."""
    who = probe.producer("claims")

    def ask(label: str, producer_id: int, epoch: int, version: int = 5) -> None:
        probe.ask(label, INIT, version, init(who.name, producer_id=producer_id, epoch=epoch))

    ask("right (epoch 0)", who.producer_id, 0)
    ask("right (epoch 1)", who.producer_id, 1)
    ask("the last epoch again: a retry", who.producer_id, 1)
    ask("an older epoch", who.producer_id, 0)
    ask("an older epoch v3", who.producer_id, 0, 3)
    ask("an older epoch v4", who.producer_id, 0, 4)
    ask("a future epoch", who.producer_id, 9)
    ask("another producer id", who.producer_id + 1000, 2)
    ask("nothing claimed", -1, -1)
    ask("after that the old claim", who.producer_id, 2)
    ask("after that the right claim", who.producer_id, 3)
    ask("v2 does not say its claim", who.producer_id, 0, 2)
    probe.describes("at the end", who)
    probe.ask("another timeout", INIT, 5, init(who.name, 5000))
    probe.describes("with the other timeout", who)


def init_while_open(probe: TxnProbe) -> None:
    """InitProducerId while a transaction is open."""
    probe.topic("init-open")
    for version in (0, 3, 5):
        who = probe.producer(f"init-open-{version}")
        probe.adds(f"v{version}, add", who, {"init-open": [0]})
        probe.writes(f"v{version}, write", who, "init-open", 0)
        probe.ask(f"v{version}, init", INIT, version, init(who.name))
        probe.settle(who.name)
        probe.describes(f"v{version}, described then", who)
        probe.ask(f"v{version}, init again", INIT, version, init(who.name))
        probe.describes(f"v{version}, described after it", who)
        probe.writes(f"v{version}, the zombie writes", who, "init-open", 1)
        probe.writes(f"v{version}, the zombie writes by v12", who, "init-open", 1, version=12)
        probe.adds(f"v{version}, the zombie adds", who, {"init-open": [0]})
        probe.ends(f"v{version}, the zombie commits", who, commit=True)
        probe.ends(f"v{version}, the zombie commits by v5", who, commit=True, version=5)
        probe.ends(f"v{version}, the zombie aborts", who, commit=False)
    probe.reads_both("what was written", "init-open")


def init_claims_while_open(probe: TxnProbe) -> None:
    """InitProducerId with a claim while a transaction is open."""
    probe.topic("init-claim")
    who = probe.producer("init-claim")
    probe.adds("add", who, {"init-claim": [0]})
    probe.writes("write", who, "init-claim", 0)
    probe.ask("wrong claim", INIT, 5, init(who.name, producer_id=who.producer_id, epoch=7))
    probe.settle(who.name)
    probe.describes("after the wrong claim", who)
    probe.ask("right claim", INIT, 5, init(who.name, producer_id=who.producer_id, epoch=0))
    probe.settle(who.name)
    probe.describes("after the right claim", who)
    probe.ask("right claim again", INIT, 5, init(who.name, producer_id=who.producer_id, epoch=0))
    probe.ask(
        "claim of the bumped epoch", INIT, 5, init(who.name, producer_id=who.producer_id, epoch=1)
    )
    probe.describes("at the end", who)


def init_after_transactions(probe: TxnProbe) -> None:
    """InitProducerId after transactions of both generations."""
    topic_id = probe.topic("init-after")
    who = probe.producer("init-after")
    probe.adds("v3 add", who, {"init-after": [0]})
    probe.ends("v3 commit", who, commit=True)
    probe.describes("after v3", who)
    probe.ask("init", INIT, 5, init(who.name))
    now = Identity(who.name, who.producer_id, probe.state(who.name)["producer_epoch"])
    probe.writes("v13 write", now, topic_id, 0, version=13)
    after = probe.ends("v5 commit", now, commit=True, version=5)
    probe.describes("after v5", who)
    probe.ask(
        "init with the epoch before",
        INIT,
        5,
        init(who.name, producer_id=now.producer_id, epoch=now.epoch),
    )
    probe.ask(
        "init with the epoch after",
        INIT,
        5,
        init(who.name, producer_id=after.producer_id, epoch=after.epoch),
    )
    probe.describes("at the end", who)


SCENARIOS: Final[tuple[TxnScenario, ...]] = (
    first_contact, features, init_versions, init_arguments, claims, init_while_open,
    init_claims_while_open, init_after_transactions,
)  # fmt: skip
