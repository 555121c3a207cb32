"""Group scenarios: SyncGroup, Heartbeat, LeaveGroup, and members who fall silent."""

import time

from tests.compat.clients.group_probe import GroupProbe, GroupScenario
from tests.compat.clients.group_probe_members import (
    BEAT,
    JOIN,
    LEAVE,
    SYNC,
    beat,
    describe,
    given_id,
    join,
    joined,
    leave,
    stable,
    sync,
)
from tests.compat.raw import versions


def sync_versions(probe: GroupProbe) -> None:
    """SyncGroup and Heartbeat and LeaveGroup at every version."""
    for version in versions("sync_group"):
        made = joined(probe, f"sync-v{version}", 1)
        member = made.ids[0]
        body = sync(made.group, 1, member, assignments={member: b"share"})
        probe.ask(f"SyncGroup v{version}", "sync_group", version, body)
        probe.ask(f"SyncGroup v{version}, again", "sync_group", version,
                  sync(made.group, 1, member))  # fmt: skip
        body = sync(made.group, 1, "client-x")
        probe.ask(f"SyncGroup v{version}, refused", "sync_group", version, body)
    for version in versions("heartbeat"):
        body = beat(made.group, 1, member)
        probe.ask(f"Heartbeat v{version}", "heartbeat", version, body)
        body = beat(made.group, 0, member)
        probe.ask(f"Heartbeat v{version}, refused", "heartbeat", version, body)
    for version in versions("leave_group"):
        made = stable(probe, f"leave-v{version}")
        unknown = leave(made.group, ("client-x", None))
        probe.ask(f"LeaveGroup v{version}, refused", "leave_group", version, unknown)
        body = leave(made.group, (made.ids[0], None))
        probe.ask(f"LeaveGroup v{version}", "leave_group", version, body)
        probe.ask(f"LeaveGroup v{version}, again", "leave_group", version, body)


def sync_refused(probe: GroupProbe) -> None:
    """SyncGroup refused."""
    made = joined(probe, "sync-refused", 1)
    group, member = made.group, made.ids[0]
    cases = (
        ("unknown group", sync("nobody-here", 1, member)),
        ("empty group id", sync("", 1, member)),
        ("unknown member", sync(group, 1, "client-x")),
        ("empty member", sync(group, 1, "")),
        ("old generation", sync(group, 0, member)),
        ("future generation", sync(group, 2, member)),
        ("generation -1", sync(group, -1, member)),
        ("wrong protocol type", sync(group, 1, member, protocol_type="connect")),
        ("wrong protocol name", sync(group, 1, member, protocol_name="sticky")),
        ("null protocol type", sync(group, 1, member, protocol_type=None)),
        ("null protocol name", sync(group, 1, member, protocol_name=None)),
        ("unknown instance", sync(group, 1, member, instance="i")),
    )
    for name, body in cases:
        probe.ask(f"{name}, v5", "sync_group", 5, body)
    describe(probe, "the group then", group)


def odd_assignments(probe: GroupProbe) -> None:
    """The leader's assignments are odd."""
    made = joined(probe, "odd-missing", 2)
    one, two = made.ids
    waiting = probe.begin("sync_group", SYNC, sync(made.group, 2, two), "b")
    rows = {one: b"\xff\xfegarbage", "client-x": b"of nobody"}
    probe.ask("one missing, one extra", "sync_group", SYNC,
              sync(made.group, 2, one, assignments=rows))  # fmt: skip
    probe.finish("the one that was missing", waiting)
    describe(probe, "the group then", made.group)
    made = joined(probe, "odd-empty", 2)
    waiting = probe.begin("sync_group", SYNC, sync(made.group, 2, made.ids[1]), "b")
    probe.ask("no assignments at all", "sync_group", SYNC, sync(made.group, 2, made.ids[0]))
    probe.finish("the follower of no assignments", waiting)
    describe(probe, "the group of no assignments", made.group)
    body = sync(made.group, 2, made.ids[1], assignments={made.ids[1]: b"mine"})
    probe.ask("the follower brings assignments", "sync_group", SYNC, body, "b")


def sync_in_each_state(probe: GroupProbe) -> None:
    """SyncGroup and Heartbeat in each state."""
    made = stable(probe, "states", 2)
    group, (one, two) = made.group, made.ids
    probe.ask("Stable, leader with other assignments", "sync_group", SYNC,
              sync(group, 2, one, assignments={one: b"new", two: b"new"}))  # fmt: skip
    probe.ask("Stable, follower", "sync_group", SYNC, sync(group, 2, two), "b")
    probe.ask("Stable, wrong protocol name", "sync_group", SYNC,
              sync(group, 2, two, protocol_name="sticky"))  # fmt: skip
    waiting = probe.begin("join_group", JOIN, join(group, one), "a")
    probe.ask("Preparing, sync", "sync_group", SYNC, sync(group, 2, two), "b")
    probe.ask("Preparing, beat", "heartbeat", BEAT, beat(group, 2, two), "b")
    probe.ask("Preparing, beat of the next generation", "heartbeat", BEAT, beat(group, 3, two), "b")
    probe.ask("Preparing, beat of an old generation", "heartbeat", BEAT, beat(group, 1, two), "b")
    probe.ask(
        "Preparing, leave of an unknown", "leave_group", LEAVE, leave(group, ("x", None)), "b"
    )
    probe.ask(
        "Preparing, the follower leaves", "leave_group", LEAVE, leave(group, (two, None)), "b"
    )
    probe.finish("the leader alone", waiting)
    probe.ask("Completing, beat", "heartbeat", BEAT, beat(group, 3, one))
    probe.ask("Completing, the leader leaves", "leave_group", LEAVE, leave(group, (one, None)))
    probe.ask("Empty, beat", "heartbeat", BEAT, beat(group, 4, one))
    probe.ask("Empty, sync", "sync_group", SYNC, sync(group, 4, one))
    probe.ask("Empty, leave", "leave_group", LEAVE, leave(group, (one, None)))
    describe(probe, "Empty", group)
    probe.ask("Empty, join with the old id", "join_group", JOIN, join(group, one))
    answer = probe.ask("Empty, join", "join_group", 3, join(group))
    probe.ask("and leave", "leave_group", LEAVE, leave(group, (answer["member_id"], None)))
    probe.must("delete_groups", 2, {"groups_names": [group]})
    probe.ask("deleted, beat", "heartbeat", BEAT, beat(group, 4, one))
    probe.ask("deleted, sync", "sync_group", SYNC, sync(group, 4, one))
    probe.ask("deleted, leave v5", "leave_group", LEAVE, leave(group, (one, None)))
    probe.ask("deleted, leave v2", "leave_group", 2, leave(group, (one, None)))


def leaving(probe: GroupProbe) -> None:
    """Members leave."""
    made = stable(probe, "leaving", 3)
    group, (one, two, three) = made.group, made.ids
    probe.ask("nobody, v5", "leave_group", 5, leave(group))
    probe.ask("nobody, v3", "leave_group", 3, leave(group))
    probe.ask("one unknown, v5", "leave_group", 5, leave(group, ("client-x", None)))
    probe.ask("an empty id, v5", "leave_group", 5, leave(group, ("", None)))
    body = leave(group, (three, None), ("client-x", None), (three, None))
    body["members"][0]["reason"] = "had enough"
    probe.ask("a batch with a duplicate, v5", "leave_group", 5, body)
    probe.ask("the others beat", "heartbeat", BEAT, beat(group, 2, two), "b")
    describe(probe, "the group then", group)
    probe.ask("the leader leaves", "leave_group", 5, leave(group, (one, None)))
    probe.ask("the last joins", "join_group", JOIN, join(group, two), "b")
    pending = given_id(probe, group, "c")
    probe.ask("one leaves that never joined", "leave_group", 5, leave(group, (pending, None)), "c")
    probe.ask("and joins", "join_group", JOIN, join(group, pending), "c")


def leader_leaves(probe: GroupProbe) -> None:
    """The leader leaves while its followers wait for it to sync."""
    made = joined(probe, "leader-leaves", 2)
    group, (one, two) = made.group, made.ids
    waiting = probe.begin("sync_group", SYNC, sync(group, 2, two), "b")
    probe.ask("LeaveGroup", "leave_group", LEAVE, leave(group, (one, None)))
    probe.finish("the follower's sync", waiting)
    probe.ask("the follower joins", "join_group", JOIN, join(group, two), "b")


def never_syncs(probe: GroupProbe) -> None:
    """Members that never sync."""
    made = joined(probe, "no-leader", 2, rebalance=1500)
    group, (one, two) = made.group, made.ids
    waiting = probe.begin("sync_group", SYNC, sync(group, 2, two), "b")
    probe.finish("the follower's sync after the rebalance timeout", waiting)
    probe.ask("the leader beats", "heartbeat", BEAT, beat(group, 2, one))
    probe.ask("the follower beats", "heartbeat", BEAT, beat(group, 2, two), "b")
    describe(probe, "the group then", group)
    probe.ask("the follower joins", "join_group", JOIN, join(group, two, rebalance=1500), "b")
    made = joined(probe, "no-follower", 2, rebalance=1500)
    group, (one, two) = made.group, made.ids
    probe.must("sync_group", SYNC, sync(group, 2, one, assignments={one: b"mine"}))
    time.sleep(2.5)
    describe(probe, "a follower did not sync", group)
    probe.ask("the leader beats then", "heartbeat", BEAT, beat(group, 2, one))
    probe.ask("the follower beats then", "heartbeat", BEAT, beat(group, 2, two), "b")


def silent(probe: GroupProbe) -> None:
    """A member is silent beyond its session timeout."""
    made = stable(probe, "silent", 2)
    group, (one, two) = made.group, made.ids
    body = join(group, two, session=1000, protocols=(("range", b"other"),))
    waiting = probe.begin("join_group", JOIN, body, "b")
    probe.must("join_group", JOIN, join(group, one))
    probe.collect(waiting)
    waiting = probe.begin("sync_group", SYNC, sync(group, 3, two), "b")
    probe.must("sync_group", SYNC, sync(group, 3, one, assignments={one: b"1", two: b"2"}))
    probe.collect(waiting)
    probe.ask("the other beats before", "heartbeat", BEAT, beat(group, 3, one))
    time.sleep(2.5)
    probe.ask("the other beats after", "heartbeat", BEAT, beat(group, 3, one))
    probe.ask("the silent one beats", "heartbeat", BEAT, beat(group, 3, two), "b")
    probe.ask("the other joins", "join_group", JOIN, join(group, one))
    probe.ask("the silent one joins with its id", "join_group", JOIN, join(group, two), "b")


def last_one_silent(probe: GroupProbe) -> None:
    """The last member is silent beyond its session timeout."""
    stable(probe, "last-silent", session=500)
    time.sleep(2)
    describe(probe, "the group", "last-silent")


def id_never_used(probe: GroupProbe) -> None:
    """A member id that was given and never used."""
    member = given_id(probe, "unused", "a", session=500)
    # What has only been promised an id leaves no record: another write makes Kafka show it.
    stable(probe, "unused-other")
    describe(probe, "the group at once", "unused")
    probe.ask("Heartbeat", "heartbeat", BEAT, beat("unused", 0, member))
    probe.ask("SyncGroup", "sync_group", SYNC, sync("unused", 0, member))
    time.sleep(1.5)
    describe(probe, "the group after the session timeout", "unused")
    probe.ask("JoinGroup with it", "join_group", JOIN, join("unused", member))
    made = stable(probe, "unused-2")
    given_id(probe, "unused-2", "b", session=1000)
    body = join("unused-2", made.ids[0])
    probe.ask("the leader joins while another has only an id", "join_group", JOIN, body)


SCENARIOS: tuple[GroupScenario, ...] = (
    sync_versions, sync_refused, odd_assignments, sync_in_each_state, leaving, leader_leaves,
    never_syncs, silent, last_one_silent, id_never_used,
)  # fmt: skip
