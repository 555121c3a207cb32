"""Group scenarios: members of a consumer group share topics and reconcile, beat by beat."""

import time

from tests.compat.clients.group_probe import SETTLE_S, GroupProbe, GroupScenario
from tests.compat.clients.group_probe_consumer import API, Party, come, shown
from tests.compat.clients.group_probe_members import beat_of_consumer, first_beat
from tests.compat.raw import Plain


def second_member(probe: GroupProbe) -> None:
    """A second member comes to a consumer group."""
    topic = probe.topic("pair", 4)
    group = "pair"
    party = Party(probe, group)
    party.enter("1", "pair")
    party.beat("1")
    party.enter("2", "pair")
    shown(probe, "described when 2 came", group)
    party.beat("2", "beats while nothing is free")
    party.say("1", "beats without a word")
    shown(probe, "described while 1 must give up", group)
    party.say("1", "beats, still owning all", owned={topic: [0, 1, 2, 3]})
    party.beat("2", "beats while 1 gives up")
    party.say("1", "gave up one of two", owned={topic: [0, 1, 2]})
    party.beat("2", "beats when one is free")
    party.beat("1", "gave up")
    shown(probe, "described when 1 gave up", group)
    party.beat("2", "beats when all is free")
    party.beat("2", "owns its share")
    party.beat("1", "beats on")
    shown(probe, "described when all is well", group)
    party.say("2", "leaves", epoch=-1)
    party.beat("1", "beats when 2 left")
    party.beat("1", "owns everything again")


def three_members(probe: GroupProbe) -> None:
    """Three members of a consumer group."""
    for assignor in ("uniform", "range"):
        for count in (1, 2):
            topics = [f"three-{assignor}-{count}-{n}" for n in range(count)]
            for name in topics:
                probe.topic(name, 5)
            group = f"three-{assignor}-{count}"
            for member in "123":
                come_and_settle(
                    probe, f"{assignor}, {count} topics", group, member, topics, assignor
                )


def come_and_settle(
    probe: GroupProbe, label: str, group: str, member: str, topics: list[str], assignor: str
) -> None:
    """One more member, and beats until everybody has a share; then the group is described."""
    members = [f"plain-{name}" for name in "123"[: int(member)]]
    probe.must(API, 1, first_beat(group, members[-1], *topics, assignor=assignor))
    owned: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    epochs = {row["member_id"]: row["member_epoch"] for row in _members(probe, group)}
    for _ in range(4):
        for name in members:
            body = beat_of_consumer(group, name, epochs[name], owned=owned[name])
            if name != members[-1] and not owned[name]:
                body.pop("topic_partitions")
            answer = probe.must(API, 1, body)
            epochs[name] = answer["member_epoch"]
            if answer["assignment"] is not None:
                rows = answer["assignment"]["topic_partitions"]
                owned[name] = {row["topic_id"]: row["partitions"] for row in rows}
    if assignor == "uniform" and len(topics) > 1:
        # Which topic is dealt out first, and so to whom, hangs on the topics' random ids.
        sizes = sorted(_size(row["assignment"]) for row in _members(probe, group))
        probe.keep(f"{label}, {member} members", "consumer_group_describe v1", {}, {"sizes": sizes})
    else:
        shown(probe, f"{label}, {member} members", group)


def _size(assignment: Plain) -> int:
    return sum(len(row["partitions"]) for row in assignment["topic_partitions"])


def _members(probe: GroupProbe, group: str) -> list[Plain]:
    answer = probe.must("consumer_group_describe", 1, {"group_ids": [group]})
    rows: list[Plain] = answer["groups"][0]["members"]
    return rows


def unlike_subscriptions(probe: GroupProbe) -> None:
    """Members subscribed to different topics."""
    for assignor in ("uniform", "range"):
        for name in ("one", "two"):
            probe.topic(f"unlike-{assignor}-{name}", 4)
        group = f"unlike-{assignor}"
        come(probe, group, "plain-1", f"unlike-{assignor}-one", assignor=assignor)
        come(probe, group, "plain-2", f"unlike-{assignor}-one", f"unlike-{assignor}-two",
             assignor=assignor)  # fmt: skip
        answer = probe.quietly("consumer_group_describe", 1, {"group_ids": [group]})
        rows = answer["groups"][0]["members"]
        target = {row["member_id"]: row["target_assignment"] for row in rows}
        probe.keep(f"{assignor}, target", "consumer_group_describe v1", {}, target)


def votes_for_an_assignor(probe: GroupProbe) -> None:
    """Members vote for an assignor."""
    probe.topic("cvotes", 3)
    for member, assignor in (("1", "range"), ("2", "uniform"), ("3", "range"), ("4", None)):
        come(probe, "cvotes", f"plain-{member}", "cvotes", assignor=assignor)
        shown(probe, f"after {member} with {assignor}", "cvotes")


def topics_change(probe: GroupProbe) -> None:
    """Topics come, grow and go under a consumer group."""
    party = Party(probe, "change")
    party.enter("1", "change-a", "change-b")
    probe.topic("change-a", 1)
    time.sleep(2 * SETTLE_S)
    party.beat("1", "beats when a came")
    party.beat("1", "owns it")
    more = {"topics": [{"name": "change-a", "count": 3}], "timeout": 5000}
    probe.must("create_partitions", 3, more)
    time.sleep(2 * SETTLE_S)
    party.beat("1", "beats when a grew")
    party.beat("1", "owns more")
    probe.topic("change-b", 1)
    time.sleep(2 * SETTLE_S)
    party.beat("1", "beats when b came")
    party.beat("1", "owns both")
    probe.must("delete_topics", 6, {"topics": [{"name": "change-a"}], "timeout": 5000})
    time.sleep(2 * SETTLE_S)
    party.beat("1", "beats when a went")
    party.beat("1", "owns b alone")
    shown(probe, "described", "change")
    party.beat("1", "subscribes to nothing new", topics=("change-b", "change-c"))
    party.beat("1", "subscribes to b alone", topics=("change-b",))


def too_slow(probe: GroupProbe) -> None:
    """A member does not give up in time."""
    party = Party(probe, "slow-one", rebalance=1000)
    probe.topic("slow-one", 2)
    party.enter("1", "slow-one")
    party.beat("1")
    party.enter("2", "slow-one")
    party.say("1", "is told")
    time.sleep(2.5)
    party.beat("2", "beats after the rebalance timeout")
    party.say("1", "beats too late")
    shown(probe, "described", "slow-one")


SCENARIOS: tuple[GroupScenario, ...] = (
    second_member, three_members, unlike_subscriptions, votes_for_an_assignor, topics_change,
    too_slow,
)  # fmt: skip
