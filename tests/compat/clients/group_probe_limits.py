"""Group scenarios for a broker with small limits and Kafka's own initial delay."""

import time

from tests.compat.clients.group_probe import GroupProbe, GroupScenario
from tests.compat.clients.group_probe_consumer import API, Party, come, shown
from tests.compat.clients.group_probe_find import OFFSETS
from tests.compat.clients.group_probe_members import (
    BEAT,
    JOIN,
    SYNC,
    await_coordinator,
    beat,
    beat_of_consumer,
    describe,
    first_beat,
    given_id,
    join,
    sync,
)


def find_first(probe: GroupProbe) -> None:
    """The coordinator is there."""
    await_coordinator(probe)
    probe.ask("Heartbeat", "heartbeat", BEAT, beat("first", 1, "nobody"))


def initial_delay(probe: GroupProbe) -> None:
    """The initial rebalance delay."""
    one = given_id(probe, "delayed", "a")
    first = probe.begin("join_group", JOIN, join("delayed", one), "a")
    describe(probe, "while it waits", "delayed", "c")
    probe.ask("beats of 1 while it waits", "heartbeat", BEAT, beat("delayed", 0, one), "c")
    second = probe.begin("join_group", 3, join("delayed"), "b")
    probe.finish("1 has joined", first)
    probe.finish("2 has joined", second)
    describe(probe, "then", "delayed", "c")


def too_many(probe: GroupProbe) -> None:
    """More members than group.max.size."""
    pending = [probe.begin("join_group", 3, join("full"), who) for who in "ab"]
    probe.ask("a third while two join, v3", "join_group", 3, join("full"), "c")
    ids = [probe.collect(each)["member_id"] for each in pending]
    probe.names.tidy(ids)
    probe.ask("a third, v3", "join_group", 3, join("full"), "c")
    probe.ask("a third, v9", "join_group", JOIN, join("full"), "c")
    probe.ask("a third, static", "join_group", JOIN, join("full", instance="i"), "c")
    probe.ask("the first syncs", "sync_group", SYNC, sync("full", 1, ids[0]), "a")
    given = [given_id(probe, "full-ids", who) for who in "abc"]
    waiting = [
        probe.begin("join_group", JOIN, join("full-ids", member), who)
        for who, member in zip("ab", given, strict=False)
    ]
    probe.ask("a third that has an id", "join_group", JOIN, join("full-ids", given[2]), "c")
    for n, each in enumerate(waiting):
        probe.finish(f"one of two that have ids, {n + 1}", each)


def too_many_consumers(probe: GroupProbe) -> None:
    """More members than group.consumer.max.size."""
    probe.topic("cfull")
    for member in "123":
        probe.ask(f"{member} comes", API, 1, first_beat("cfull", f"plain-{member}", "cfull"))


def session_of_consumers(probe: GroupProbe) -> None:
    """A member of a consumer group is silent beyond the session timeout."""
    topic = probe.topic("csilent", 2)
    come(probe, "csilent", "plain-1", "csilent")
    epoch = come(probe, "csilent", "plain-2", "csilent")
    for _ in range(6):
        time.sleep(0.5)
        body = beat_of_consumer("csilent", "plain-2", epoch)
        epoch = probe.must(API, 1, body)["member_epoch"]
    shown(probe, "described", "csilent")
    probe.ask("the silent one beats", API, 1, beat_of_consumer("csilent", "plain-1", 2))
    probe.ask("the other beats", API, 1,
              beat_of_consumer("csilent", "plain-2", epoch, owned={topic: [0, 1]}))  # fmt: skip


def static_away(probe: GroupProbe) -> None:
    """A static member does not come back within the session timeout."""
    probe.topic("caway")
    party = Party(probe, "caway")
    party.enter("1", "caway", instance="one")
    party.say("1", "leaves for a while", instance="one", epoch=-2)
    time.sleep(3)
    shown(probe, "described", "caway")
    party.enter("2", "caway", instance="one")


def offsets_topic_goes(probe: GroupProbe) -> None:
    """The topic of offsets is deleted."""
    body = {"topics": [{"name": OFFSETS}], "timeout": 5000}
    probe.ask("DeleteTopics", "delete_topics", 6, body)


SCENARIOS: tuple[GroupScenario, ...] = (
    find_first, initial_delay, too_many, too_many_consumers, session_of_consumers, static_away,
    offsets_topic_goes,
)  # fmt: skip
