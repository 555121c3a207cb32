"""Group scenarios: JoinGroup, from the first member to changes of mind."""

from tests.compat.clients.group_probe import SETTLE_S, GroupProbe, GroupScenario
from tests.compat.clients.group_probe_members import (
    JOIN,
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


def first_join(probe: GroupProbe) -> None:
    """First JoinGroup."""
    for version in versions("join_group"):
        group = f"first-{version}"
        answer = probe.ask(f"v{version}", "join_group", version, join(group))
        if version >= 4:
            member = answer["member_id"]
            probe.ask(f"v{version}, with the id", "join_group", version, join(group, member))
        describe(probe, f"v{version}, the group with a member", group)


def refused(probe: GroupProbe) -> None:
    """JoinGroup refused."""
    for version in (0, 1, 3, 4, 9):
        body = join("refused", "client-a-that-nobody-gave")
        probe.ask(f"unknown member id, no group, v{version}", "join_group", version, body)
    for name, ms in (("below", 99), ("negative", -1), ("above", 1_800_001), ("zero", 0)):
        body = join("refused", session=ms)
        probe.ask(f"session timeout {name}, v9", "join_group", 9, body)
    probe.ask("session timeout below, v0", "join_group", 0, join("refused", session=99))
    probe.ask("session timeout at the top", "join_group", 9, join("at-top", session=1_800_000))
    probe.ask("negative rebalance timeout", "join_group", 9, join("minus", rebalance=-1))
    for version in (0, 4, 9):
        probe.ask(f"no protocols, v{version}", "join_group", version,
                  join("refused", protocols=()))  # fmt: skip
        probe.ask(f"empty protocol type, v{version}", "join_group", version,
                  join("refused", protocol_type=""))  # fmt: skip
    probe.ask("empty protocol name, v3", "join_group", 3, join("noname", protocols=("",)))
    probe.ask("empty metadata, v3", "join_group", 3, join("nometa", protocols=(("r", b""),)))
    probe.ask("empty instance id, v9", "join_group", 9, join("refused", instance=""))
    probe.ask("instance id with a dot and a slash, v9", "join_group", 9,
              join("odd-instance", instance="a./b"))  # fmt: skip
    probe.ask("instance id '.', v9", "join_group", 9, join("odd-instance-2", instance="."))
    probe.ask("instance id of 300, v9", "join_group", 9,
              join("odd-instance-3", instance="i" * 300))  # fmt: skip
    describe(probe, "the group then", "refused")


def protocol_twice(probe: GroupProbe) -> None:
    """JoinGroup with one protocol twice."""
    probe.link("a").be_patient(3)
    probe.ask("v3", "join_group", 3, join("twice", protocols=("r", "r")))


def unlike(probe: GroupProbe) -> None:
    """JoinGroup unlike the group's protocols."""
    made = stable(probe, "unlike")
    for version in (3, 9):
        body = join("unlike", protocol_type="connect")
        probe.ask(f"another type, v{version}", "join_group", version, body, "b")
        body = join("unlike", protocols=("sticky",))
        probe.ask(f"another protocol, v{version}", "join_group", version, body, "b")
    member = made.ids[0]
    probe.ask("unknown member id", "join_group", 9, join("unlike", "client-x"), "b")
    body = join("unlike", member, protocols=("sticky",))
    probe.ask("the only member with another protocol", "join_group", 9, body)
    body = join("unlike", member, protocol_type="connect", protocols=("sticky",))
    probe.ask("the only member with another type", "join_group", 9, body)
    describe(probe, "the group then", "unlike")


def type_of_an_empty_group(probe: GroupProbe) -> None:
    """JoinGroup with another type into an empty group."""
    made = stable(probe, "was-consumer")
    probe.must("leave_group", 5, leave("was-consumer", (made.ids[0], None)))
    describe(probe, "empty", "was-consumer")
    body = join("was-consumer", protocol_type="connect", protocols=("default",))
    probe.ask("joins as connect, v3", "join_group", 3, body)
    describe(probe, "then", "was-consumer")


def second_member(probe: GroupProbe) -> None:
    """A second member comes."""
    made = stable(probe, "second")
    one, two = made.ids[0], given_id(probe, "second", "b")
    probe.ask("heartbeat of 1 while 2 has only an id", "heartbeat", 4, beat("second", 1, one))
    describe(probe, "while 2 has only an id", "second")
    pending = probe.begin("join_group", JOIN, join("second", two, reason="I am new"), "b")
    describe(probe, "while 2 waits", "second", "c")
    probe.ask("heartbeat of 1 while 2 waits", "heartbeat", 4, beat("second", 1, one))
    probe.ask("heartbeat of 2 while 2 waits", "heartbeat", 4, beat("second", 1, two), "c")
    probe.ask("heartbeat of 2 with generation -1", "heartbeat", 4, beat("second", -1, two), "c")
    probe.ask("sync of 1 while 2 waits", "sync_group", SYNC, sync("second", 1, one))
    probe.ask("1 joins again", "join_group", JOIN, join("second", one, reason="rejoin"))
    probe.finish("2 has joined", pending)
    describe(probe, "before the leader synced", "second")
    probe.ask("heartbeat of 1 before the sync", "heartbeat", 4, beat("second", 2, one))
    probe.ask("heartbeat with the old generation", "heartbeat", 4, beat("second", 1, one))
    pending = probe.begin("sync_group", SYNC, sync("second", 2, two), "b")
    shares = {one: b"share of 1", two: b"share of 2"}
    probe.ask("the leader syncs", "sync_group", SYNC, sync("second", 2, one, assignments=shares))
    probe.finish("2 has its assignment", pending)
    describe(probe, "stable", "second")
    probe.ask("heartbeat of 2", "heartbeat", 4, beat("second", 2, two))


def rejoin_of_a_follower(probe: GroupProbe) -> None:
    """A follower joins again with what it said before."""
    made = stable(probe, "refollow", 2)
    for version in (2, 5, 9):
        probe.ask(f"v{version}", "join_group", version, join("refollow", made.ids[1]), "b")
    describe(probe, "the group then", "refollow")
    probe.ask("heartbeat of the leader", "heartbeat", 4, beat("refollow", 2, made.ids[0]))


def rejoin_of_a_changed_follower(probe: GroupProbe) -> None:
    """A follower joins again with other metadata."""
    made = stable(probe, "changed", 2)
    body = join("changed", made.ids[1], protocols=(("range", b"other"),))
    pending = probe.begin("join_group", JOIN, body, "b")
    probe.ask("heartbeat of the leader", "heartbeat", 4, beat("changed", 2, made.ids[0]))
    probe.ask("the leader joins", "join_group", JOIN, join("changed", made.ids[0]))
    probe.finish("the follower has joined", pending)


def rejoin_of_the_leader(probe: GroupProbe) -> None:
    """The leader joins again with what it said before."""
    made = stable(probe, "relead", 2)
    pending = probe.begin("join_group", JOIN, join("relead", made.ids[0]), "a")
    describe(probe, "the group then", "relead", "c")
    probe.ask("heartbeat of the follower", "heartbeat", 4, beat("relead", 2, made.ids[1]), "b")
    probe.ask("the follower joins", "join_group", JOIN, join("relead", made.ids[1]), "b")
    probe.finish("the leader has joined", pending)


def join_before_the_sync(probe: GroupProbe) -> None:
    """Members join again before the leader has synced."""
    made = joined(probe, "presync", 2)
    leader, follower = made.ids
    probe.ask("the follower, unchanged", "join_group", JOIN, join("presync", follower), "b")
    probe.ask("the leader, unchanged", "join_group", JOIN, join("presync", leader))
    describe(probe, "the group then", "presync")
    waiting = probe.begin("sync_group", SYNC, sync("presync", 2, follower), "b")
    body = join("presync", leader, protocols=(("range", b"other"),))
    pending = probe.begin("join_group", JOIN, body, "a")
    probe.finish("the follower's sync when the leader changed its mind", waiting)
    probe.ask("the follower joins", "join_group", JOIN, join("presync", follower), "b")
    probe.finish("the leader, changed", pending)


def join_twice_at_once(probe: GroupProbe) -> None:
    """One member joins on two connections."""
    made = stable(probe, "at-once", 2)
    first = probe.begin("join_group", JOIN, join("at-once", made.ids[0]), "a")
    second = probe.begin("join_group", JOIN, join("at-once", made.ids[0]), "c")
    probe.ask("the follower", "join_group", JOIN, join("at-once", made.ids[1]), "b")
    probe.finish("the second", second)
    probe.link("a").be_patient(2)
    probe.finish("the first", first)


def votes(probe: GroupProbe) -> None:
    """The members vote for a protocol."""
    first = ("range", "sticky", "only-1")
    second = ("sticky", "range", "only-2")
    ids = [given_id(probe, "votes", who, protocols=("range",)) for who in "abc"]
    probe.must("join_group", JOIN, join("votes", ids[0], protocols=first))
    waiting = [
        probe.begin("join_group", JOIN, join("votes", member, protocols=second), who)
        for who, member in zip("bc", ids[1:], strict=True)
    ]
    probe.ask("one for range", "join_group", JOIN, join("votes", ids[0], protocols=first))
    for n, pending in enumerate(waiting):
        probe.finish(f"two for sticky, {n}", pending)
    body = join("votes", protocols=("only-1", "only-2"))
    probe.ask("one with nothing in common", "join_group", 3, body, "d")


def tied_votes(probe: GroupProbe) -> None:
    """The members' votes are even."""
    ids = [given_id(probe, "tied", who, protocols=("range", "sticky")) for who in "ab"]
    probe.must("join_group", JOIN, join("tied", ids[0], protocols=("range", "sticky")))
    pending = probe.begin(
        "join_group", JOIN, join("tied", ids[1], protocols=("sticky", "range")), "b"
    )
    probe.ask("leader", "join_group", JOIN, join("tied", ids[0], protocols=("range", "sticky")))
    probe.finish("follower", pending)


def never_comes_back(probe: GroupProbe) -> None:
    """A member does not join again within the rebalance timeout."""
    made = stable(probe, "slow", 2, rebalance=1500)
    body = join("slow", made.ids[1], protocols=(("range", b"other"),), rebalance=1500)
    probe.ask("the other waits and is alone", "join_group", JOIN, body, "b")
    probe.ask("heartbeat of the lost leader", "heartbeat", 4, beat("slow", 2, made.ids[0]))
    probe.ask("the lost leader joins", "join_group", JOIN, join("slow", made.ids[0]))


def hangs_up_while_joining(probe: GroupProbe) -> None:
    """A member hangs up while its JoinGroup waits."""
    made = stable(probe, "gone", 2)
    probe.begin("join_group", JOIN, join("gone", made.ids[0]), "a", settle_s=2 * SETTLE_S)
    probe.drop("a")
    describe(probe, "the group then", "gone", "c")
    probe.ask("the other joins", "join_group", JOIN, join("gone", made.ids[1]), "b")


SCENARIOS: tuple[GroupScenario, ...] = (
    first_join, refused, protocol_twice, unlike, type_of_an_empty_group, second_member,
    rejoin_of_a_follower, rejoin_of_a_changed_follower, rejoin_of_the_leader,
    join_before_the_sync, join_twice_at_once, votes, tied_votes, never_comes_back,
    hangs_up_while_joining,
)  # fmt: skip
