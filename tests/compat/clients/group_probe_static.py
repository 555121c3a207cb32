"""Group scenarios: static members, who come back under their instance id."""

import time
from typing import Any

from tests.compat.clients.group_probe import GroupProbe, GroupScenario
from tests.compat.clients.group_probe_members import (
    BEAT,
    JOIN,
    LEAVE,
    SYNC,
    Stable,
    beat,
    commit,
    describe,
    join,
    leave,
    sync,
)


def static_pair(probe: GroupProbe, group: str, **options: Any) -> Stable:
    """A Stable group of the static members `one`, who leads, and `two`."""
    one = probe.must("join_group", JOIN, join(group, instance="one", **options), "a")["member_id"]
    pending = probe.begin("join_group", JOIN, join(group, instance="two", **options), "b")
    probe.must("join_group", JOIN, join(group, one, instance="one", **options), "a")
    answer = probe.collect(pending)
    two, generation = answer["member_id"], answer["generation_id"]
    probe.names.tidy([one, two])
    shares = {one: b"share of one", two: b"share of two"}
    body = sync(group, generation, one, instance="one", assignments=shares)
    probe.must("sync_group", SYNC, body, "a")
    probe.must("sync_group", SYNC, sync(group, generation, two, instance="two"), "b")
    return Stable(group, generation, [one, two])


def first_join(probe: GroupProbe) -> None:
    """A static member's first JoinGroup."""
    for version in (5, 6, 7, 8, 9):
        group = f"static-first-{version}"
        probe.ask(f"v{version}", "join_group", version, join(group, instance="i"))
    describe(probe, "the group", "static-first-9")
    probe.ask("v9, with a made-up member id", "join_group", 9,
              join("static-unknown", "client-x", instance="i"))  # fmt: skip
    probe.ask("v4, which does not know instance ids", "join_group", 4,
              join("static-first-4", instance="i"))  # fmt: skip


def follower_returns(probe: GroupProbe) -> None:
    """A static follower returns without its member id."""
    for version in (5, 8, 9):
        group = f"static-follower-{version}"
        old = static_pair(probe, group).ids[1]
        body = join(group, instance="two")
        answer = probe.ask(f"v{version}", "join_group", version, body, "c")
        new = answer["member_id"]
        probe.ask(f"v{version}, the old one beats", "heartbeat", BEAT,
                  beat(group, 2, old, "two"), "b")  # fmt: skip
        probe.ask(f"v{version}, it syncs", "sync_group", SYNC,
                  sync(group, 2, new, instance="two"), "c")  # fmt: skip
        describe(probe, f"v{version}, the group then", group)


def leader_returns(probe: GroupProbe) -> None:
    """A static leader returns without its member id."""
    for version in (5, 8, 9):
        group = f"static-leader-{version}"
        made = static_pair(probe, group)
        body = join(group, instance="one")
        answer = probe.ask(f"v{version}", "join_group", version, body, "c")
        new = answer["member_id"]
        probe.ask(f"v{version}, the follower beats", "heartbeat", BEAT,
                  beat(group, 2, made.ids[1], "two"), "b")  # fmt: skip
        probe.ask(f"v{version}, it syncs", "sync_group", SYNC,
                  sync(group, 2, new, instance="one"), "c")  # fmt: skip
        shares = {new: b"other", made.ids[1]: b"yet another"}
        probe.ask(f"v{version}, it syncs with other assignments", "sync_group", SYNC,
                  sync(group, 2, new, instance="one", assignments=shares), "c")  # fmt: skip
        describe(probe, f"v{version}, the group then", group)


def changed_member_returns(probe: GroupProbe) -> None:
    """A static follower returns with other metadata."""
    made = static_pair(probe, "static-changed")
    body = join("static-changed", instance="two", protocols=(("range", b"other"),))
    probe.ask("same protocol", "join_group", JOIN, body, "c")
    probe.ask("the leader beats", "heartbeat", BEAT, beat("static-changed", 2, made.ids[0], "one"))
    describe(probe, "the group then", "static-changed", "d")
    made = static_pair(probe, "static-changed-2", protocols=("range", "sticky"))
    body = join("static-changed-2", instance="two", protocols=("sticky", "range"))
    probe.link("c").be_patient(2)
    probe.ask("another order of protocols", "join_group", JOIN, body, "c")
    probe.ask("the leader beats after it", "heartbeat", BEAT,
              beat("static-changed-2", 2, made.ids[0], "one"))  # fmt: skip
    made = static_pair(probe, "static-changed-3", protocols=("range", "sticky"))
    body = join("static-changed-3", instance="two", protocols=("sticky",))
    pending = probe.begin("join_group", JOIN, body, "c")
    probe.ask("the leader beats when the protocol must change", "heartbeat", BEAT,
              beat("static-changed-3", 2, made.ids[0], "one"))  # fmt: skip
    body = join("static-changed-3", made.ids[0], instance="one", protocols=("range", "sticky"))
    probe.ask("the leader joins", "join_group", JOIN, body)
    probe.finish("the changed one has joined", pending)


def known_member_rejoins(probe: GroupProbe) -> None:
    """A static member joins again with its member id."""
    made = static_pair(probe, "static-known")
    body = join("static-known", made.ids[1], instance="two")
    probe.ask("follower", "join_group", JOIN, body, "b")
    pending = probe.begin(
        "join_group", JOIN, join("static-known", made.ids[0], instance="one"), "a"
    )
    probe.ask("the follower beats after the leader joined", "heartbeat", BEAT,
              beat("static-known", 2, made.ids[1], "two"), "b")  # fmt: skip
    probe.ask("the follower joins", "join_group", JOIN, body, "b")
    probe.finish("the leader has joined", pending)


def fenced(probe: GroupProbe) -> None:
    """The old of two with one instance id is fenced."""
    probe.topic("static-topic")
    old = static_pair(probe, "static-fenced").ids[1]
    answer = probe.must("join_group", JOIN, join("static-fenced", instance="two"), "c")
    new = answer["member_id"]
    probe.names.tidy(new)
    for name, member, instance in (
        ("old id", old, "two"),
        ("old id without instance", old, None),
        ("new id without instance", new, None),
        ("new id with another's instance", new, "one"),
        ("unknown instance", new, "three"),
        ("unknown id", "client-x", "two"),
        ("empty id", "", "two"),
    ):
        group = "static-fenced"
        probe.ask(f"Heartbeat, {name}", "heartbeat", BEAT, beat(group, 2, member, instance))
        probe.ask(f"SyncGroup, {name}", "sync_group", SYNC,
                  sync(group, 2, member, instance=instance))  # fmt: skip
        topics = {"static-topic": {0: 1}}
        body = commit(group, topics, generation=2, member=member, instance=instance)
        probe.ask(f"OffsetCommit, {name}", "offset_commit", 9, body)
    probe.ask("Heartbeat, old id and old generation", "heartbeat", BEAT,
              beat("static-fenced", 1, old, "two"))  # fmt: skip
    probe.ask("JoinGroup, old id", "join_group", JOIN, join("static-fenced", old, instance="two"))
    probe.ask("JoinGroup, old id, no instance", "join_group", JOIN, join("static-fenced", old))
    probe.ask("JoinGroup, old id, new instance", "join_group", JOIN,
              join("static-fenced", old, instance="three"))  # fmt: skip
    probe.ask("LeaveGroup, old id", "leave_group", LEAVE, leave("static-fenced", (old, "two")))


def fenced_while_joining(probe: GroupProbe) -> None:
    """Two with one instance id join in one rebalance."""
    made = static_pair(probe, "static-twice")
    group = "static-twice"
    first = probe.begin("join_group", JOIN, join(group, made.ids[0], instance="one"), "a")
    second = probe.begin("join_group", JOIN, join(group, instance="one"), "c")
    probe.link("a").be_patient(2)
    probe.finish("the old one", first)
    probe.ask("the follower", "join_group", JOIN, join(group, made.ids[1], instance="two"), "b")
    probe.finish("the new one", second)


def fenced_while_syncing(probe: GroupProbe) -> None:
    """A static follower returns while its SyncGroup waits."""
    group = "static-sync"
    one = probe.must("join_group", JOIN, join(group, instance="one"), "a")["member_id"]
    pending = probe.begin("join_group", JOIN, join(group, instance="two"), "b")
    probe.must("join_group", JOIN, join(group, one, instance="one"), "a")
    two = probe.collect(pending)["member_id"]
    probe.names.tidy([one, two])
    waiting = probe.begin("sync_group", SYNC, sync(group, 2, two, instance="two"), "b")
    rejoin = probe.begin("join_group", JOIN, join(group, instance="two"), "c")
    probe.link("b").be_patient(2)
    probe.finish("the old one's sync", waiting)
    probe.ask("the leader beats", "heartbeat", BEAT, beat(group, 2, one, "one"))
    probe.ask("the leader joins", "join_group", JOIN, join(group, one, instance="one"))
    probe.finish("the new one", rejoin)


def leaves(probe: GroupProbe) -> None:
    """Static members leave."""
    static_pair(probe, "static-leave")
    probe.ask("by instance id alone, and one unknown", "leave_group", LEAVE,
              leave("static-leave", ("", "two"), ("", "three"), ("client-x", "one")))  # fmt: skip
    describe(probe, "the group then", "static-leave")
    probe.ask("the other by the old form's empty member id", "leave_group", 2,
              leave("static-leave", ("", None)))  # fmt: skip
    probe.ask("the other, v3", "leave_group", 3, leave("static-leave", ("", "one")))
    describe(probe, "the group without members", "static-leave")


def expires(probe: GroupProbe) -> None:
    """A static member is silent beyond its session timeout."""
    group = "static-silent"
    one, two = static_pair(probe, group, session=1500).ids
    for _ in range(6):
        time.sleep(0.5)
        probe.quietly("heartbeat", BEAT, beat(group, 2, one, "one"))
    probe.ask("the leader beats", "heartbeat", BEAT, beat(group, 2, one, "one"))
    probe.ask("the silent one beats", "heartbeat", BEAT, beat(group, 2, two, "two"), "b")
    probe.ask("the leader joins", "join_group", JOIN, join(group, one, instance="one"))


def shorter_session(probe: GroupProbe) -> None:
    """A static member returns with a shorter session timeout and is silent."""
    group = "static-expiry"
    made = static_pair(probe, group)
    body = join(group, instance="two", session=1000)
    new = probe.must("join_group", JOIN, body, "b")["member_id"]
    probe.names.tidy(new)
    time.sleep(2.5)
    probe.ask("the leader beats", "heartbeat", BEAT, beat(group, 2, made.ids[0], "one"))
    probe.ask("the silent one beats", "heartbeat", BEAT, beat(group, 2, new, "two"), "b")
    probe.ask("the leader joins", "join_group", JOIN, join(group, made.ids[0], instance="one"))


SCENARIOS: tuple[GroupScenario, ...] = (
    first_join, follower_returns, leader_returns, changed_member_returns, known_member_rejoins,
    fenced, fenced_while_joining, fenced_while_syncing, leaves, expires,
    shorter_session,
)  # fmt: skip
