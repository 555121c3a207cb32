"""Group scenarios: consumer groups and the other APIs, and groups of one kind met by the other."""

from typing import Any

from tests.compat.clients.group_probe import GroupProbe, GroupScenario
from tests.compat.clients.group_probe_admin import listed
from tests.compat.clients.group_probe_consumer import API, Party, come, shown
from tests.compat.clients.group_probe_members import (
    BEAT,
    JOIN,
    LEAVE,
    SYNC,
    assigned,
    beat,
    beat_of_consumer,
    commit,
    describe,
    fetch,
    first_beat,
    given_id,
    join,
    joined,
    leave,
    stable,
    subscription,
    sync,
)
from tests.compat.clients.group_probe_offsets import delete


def administered(probe: GroupProbe) -> None:
    """A consumer group under administration."""
    probe.topic("admin-topic", 2)
    party = Party(probe, "admin-group")
    party.enter("1", "admin-topic", rack="rack-1", instance="static-1")
    party.enter("2", "admin-topic")
    for version in (0, 1):
        shown(probe, f"ConsumerGroupDescribe v{version}", "admin-group", version)
    probe.ask("ConsumerGroupDescribe with operations", "consumer_group_describe", 1,
              {"group_ids": ["admin-group"], "include_authorized_operations": True})  # fmt: skip
    probe.ask("ConsumerGroupDescribe of several", "consumer_group_describe", 1,
              {"group_ids": ["admin-group", "no-group", "", "admin-group"]})  # fmt: skip
    probe.ask("ConsumerGroupDescribe of none", "consumer_group_describe", 1, {"group_ids": []})
    for version in (5, 6):
        probe.ask(f"DescribeGroups v{version}", "describe_groups", version,
                  {"groups": ["admin-group"], "include_authorized_operations": True})  # fmt: skip
    listed(probe, "ListGroups", "admin-")
    listed(probe, "ListGroups v0", "admin-", 0)
    for kind in ("consumer", "Consumer", "classic"):
        listed(probe, f"ListGroups of type {kind}", "admin-", types_filter=[kind])
    for state in ("Reconciling", "reconciling", "Stable", "Assigning", "Empty"):
        listed(probe, f"ListGroups in state {state}", "admin-", states_filter=[state])
    names = {"groups_names": ["admin-group"]}
    probe.ask("DeleteGroups with members", "delete_groups", 2, names)
    party.say("1", "leaves for good", epoch=-1, instance="static-1")
    party.say("2", "leaves for good", epoch=-1)
    listed(probe, "ListGroups when empty", "admin-")
    shown(probe, "ConsumerGroupDescribe when empty", "admin-group")
    describe(probe, "DescribeGroups when empty", "admin-group")
    probe.ask("DeleteGroups when empty", "delete_groups", 2, names)
    probe.ask("DeleteGroups again", "delete_groups", 2, names)
    shown(probe, "ConsumerGroupDescribe when deleted", "admin-group")
    stable(probe, "admin-classic")
    shown(probe, "ConsumerGroupDescribe of a classic group", "admin-classic")
    probe.must("offset_commit", 9, commit("admin-simple", {"admin-topic": {0: 1}}))
    shown(probe, "ConsumerGroupDescribe of a simple group", "admin-simple")


def offsets(probe: GroupProbe) -> None:
    """Offsets of a consumer group."""
    topic_id = probe.topic("coff", 2)
    epoch = come(probe, "coff", "plain-1", "coff")

    def ask(name: str, version: int = 9, **options: Any) -> None:
        body = commit("coff", {"coff": {0: 1}}, topic_id=topic_id, **options)
        probe.ask(name, "offset_commit", version, body)

    ask("right", member="plain-1", generation=epoch)
    ask("right, v10", 10, member="plain-1", generation=epoch)
    ask("right, v8", 8, member="plain-1", generation=epoch)
    ask("old epoch", member="plain-1", generation=epoch - 1)
    ask("old epoch, v8", 8, member="plain-1", generation=epoch - 1)
    ask("future epoch", member="plain-1", generation=epoch + 1)
    ask("future epoch, v8", 8, member="plain-1", generation=epoch + 1)
    ask("unknown member", member="plain-x", generation=epoch)
    ask("unknown member, v8", 8, member="plain-x", generation=epoch)
    ask("no member, epoch -1")
    ask("no member, epoch -1, v8", 8)
    ask("member, epoch -1", member="plain-1")
    ask("no member, right epoch", generation=epoch)
    ask("member, epoch 0", member="plain-1", generation=0)
    ask("with an instance id it has not", member="plain-1", generation=epoch, instance="i")

    def look(name: str, version: int = 9, **options: Any) -> None:
        body = fetch("coff", {"coff": (0, 1)}, topic_id=topic_id, **options)
        probe.ask(f"fetch, {name}", "offset_fetch", version, body)

    look("right", member="plain-1", epoch=epoch)
    look("right, v10", 10, member="plain-1", epoch=epoch)
    look("old epoch", member="plain-1", epoch=epoch - 1)
    look("future epoch", member="plain-1", epoch=epoch + 1)
    look("unknown member", member="plain-x", epoch=epoch)
    look("no member")
    look("no member, but an epoch", epoch=epoch)
    look("member, epoch -1", member="plain-1")
    look("empty member, epoch -1", member="")
    look("v8", 8)
    look("v1", 1)
    probe.ask("OffsetDelete, subscribed", "offset_delete", 0, delete("coff", ("coff", (0,))))
    probe.must(API, 1, beat_of_consumer("coff", "plain-1", -1))
    ask("empty, no member")
    ask("empty, the member that left", member="plain-1", generation=epoch)
    ask("empty, epoch but no member", generation=epoch)
    look("empty, no member")
    look("empty, the member that left", member="plain-1", epoch=epoch)
    probe.ask("OffsetDelete, empty", "offset_delete", 0, delete("coff", ("coff", (0,))))


def classic_apis(probe: GroupProbe) -> None:
    """The classic APIs against a consumer group."""
    probe.topic("both-a")
    epoch = come(probe, "both-a", "plain-1", "both-a")
    probe.ask("Heartbeat", "heartbeat", BEAT, beat("both-a", epoch, "plain-1"))
    probe.ask("Heartbeat of a stranger", "heartbeat", BEAT, beat("both-a", epoch, "plain-x"))
    probe.ask("SyncGroup", "sync_group", SYNC, sync("both-a", epoch, "plain-1"))
    probe.ask("SyncGroup of a stranger", "sync_group", SYNC, sync("both-a", epoch, "plain-x"))
    probe.ask("LeaveGroup of a stranger", "leave_group", LEAVE, leave("both-a", ("plain-x", None)))
    probe.ask("JoinGroup as connect", "join_group", JOIN,
              join("both-a", protocol_type="connect"), "b")  # fmt: skip
    probe.ask("JoinGroup with unreadable metadata", "join_group", 3, join("both-a"), "b")
    probe.ask("JoinGroup with no protocols", "join_group", 3, join("both-a", protocols=()), "b")
    probe.ask("LeaveGroup", "leave_group", LEAVE, leave("both-a", ("plain-1", None)))
    shown(probe, "described", "both-a")


def becomes_consumer(probe: GroupProbe) -> None:
    """Classic groups that a consumer member comes to."""
    probe.topic("up")
    enter = first_beat("up-empty", "plain-1", "up")
    made = stable(probe, "up-empty")
    probe.must("leave_group", 5, leave("up-empty", (made.ids[0], None)))
    probe.ask("empty", API, 1, enter)
    shown(probe, "empty, described", "up-empty")
    probe.must("offset_commit", 9, commit("up-simple", {"up": {0: 7}}))
    probe.ask("simple", API, 1, first_beat("up-simple", "plain-1", "up"))
    probe.ask("simple, its offsets", "offset_fetch", 9, fetch("up-simple", {"up": (0,)}))
    given_id(probe, "up-id", "b")
    probe.ask("with only an id given", API, 1, first_beat("up-id", "plain-1", "up"))
    stable(probe, "up-connect", protocol_type="connect")
    probe.ask("of type connect", API, 1, first_beat("up-connect", "plain-1", "up"))
    stable(probe, "up-garbage")
    probe.ask("with unreadable metadata", API, 1, first_beat("up-garbage", "plain-1", "up"))
    describe(probe, "with unreadable metadata, described", "up-garbage")
    joined(probe, "up-completing", 1, protocols=(("range", subscription("up")),))
    probe.ask("before the leader synced", API, 1, first_beat("up-completing", "plain-1", "up"))
    probe.ask("beat of a stranger", API, 1, beat_of_consumer("up-garbage", "plain-1", 1))
    probe.ask("leaving stranger", API, 1, beat_of_consumer("up-garbage", "plain-1", -1))


def becomes_classic(probe: GroupProbe) -> None:
    """Consumer groups that a classic member comes to."""
    probe.topic("down")
    come(probe, "down-empty", "plain-1", "down")
    probe.must("offset_commit", 8, commit("down-other", {"down": {0: 7}}))
    probe.must(API, 1, beat_of_consumer("down-empty", "plain-1", -1))
    probe.ask("empty, v9", "join_group", JOIN, join("down-empty"))
    describe(probe, "empty, described", "down-empty")
    probe.ask("empty, v3", "join_group", 3, join("down-empty"))
    describe(probe, "empty, described then", "down-empty")
    listed(probe, "listed", "down-")


def live_up(probe: GroupProbe) -> None:
    """A live classic group of consumers that a consumer member comes to."""
    probe.topic("live", 2)
    protocols = (("range", subscription("live")),)
    made = stable(probe, "live-up", protocols=protocols, share=assigned("live", 0, 1))
    probe.ask("comes", API, 1, first_beat("live-up", "plain-1", "live"))
    shown(probe, "described", "live-up")
    probe.ask("the classic member beats", "heartbeat", BEAT, beat("live-up", 1, made.ids[0]))


def live_down(probe: GroupProbe) -> None:
    """A live consumer group that a classic member comes to."""
    probe.topic("live-d", 2)
    come(probe, "live-down", "plain-1", "live-d")
    protocols = (("range", subscription("live-d")),)
    answer = probe.ask("first", "join_group", JOIN, join("live-down", protocols=protocols), "b")
    body = join("live-down", answer["member_id"], protocols=protocols)
    probe.ask("with the id", "join_group", JOIN, body, "b")
    shown(probe, "described", "live-down")


SCENARIOS: tuple[GroupScenario, ...] = (
    administered, offsets, classic_apis, becomes_consumer, becomes_classic, live_up, live_down,
)  # fmt: skip
