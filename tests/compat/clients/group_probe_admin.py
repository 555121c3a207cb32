"""Group scenarios: ListGroups, DescribeGroups, DeleteGroups of classic groups."""

from typing import Final

from tests.compat.clients.group_probe import GroupProbe, GroupScenario
from tests.compat.clients.group_probe_members import (
    JOIN,
    commit,
    describe,
    fetch,
    given_id,
    join,
    joined,
    leave,
    stable,
)
from tests.compat.raw import Plain, versions

STATES: Final = (
    "Stable", "stable", "STABLE", "Empty", "PreparingRebalance", "preparingrebalance",
    "CompletingRebalance", "Dead", "Nonsense", "", "Assigning", "Reconciling",
)  # fmt: skip


def listed(probe: GroupProbe, name: str, prefix: str, version: int = 5, **filters: object) -> None:
    """Keep ListGroups' answer, but only the groups whose ids start with the prefix."""
    body: Plain = dict(filters)
    answer = probe.quietly("list_groups", version, body)
    if "groups" in answer:
        rows = [row for row in answer["groups"] if row["group_id"].startswith(prefix)]
        answer = answer | {"groups": rows}
    probe.keep(name, f"list_groups v{version}", body, answer)


def list_groups(probe: GroupProbe) -> None:
    """ListGroups."""
    probe.topic("list-topic")
    stable(probe, "list-stable")
    joined(probe, "list-completing", 1)
    given_id(probe, "list-id-only", "a")
    probe.must("offset_commit", 9, commit("list-simple", {"list-topic": {0: 1}}))
    left = stable(probe, "list-left", protocol_type="connect")
    probe.must("leave_group", 5, leave("list-left", (left.ids[0], None)))
    made = stable(probe, "list-preparing", 2)
    waiting = probe.begin("join_group", JOIN, join("list-preparing", made.ids[0]), "c")
    for version in versions("list_groups"):
        listed(probe, f"v{version}", "list-", version)
    for state in STATES:
        listed(probe, f"state {state!r}", "list-", states_filter=[state])
    listed(probe, "two states", "list-", states_filter=["Empty", "Stable", "Nonsense"])
    for kind in ("classic", "Classic", "CLASSIC", "consumer", "nonsense", "share", ""):
        listed(probe, f"type {kind!r}", "list-", types_filter=[kind])
    listed(probe, "two types, one unknown", "list-", types_filter=["classic", "nonsense"])
    listed(probe, "state and type", "list-", states_filter=["Empty"], types_filter=["classic"])
    probe.must("join_group", JOIN, join("list-preparing", made.ids[1]), "b")
    probe.collect(waiting)


def describe_groups(probe: GroupProbe) -> None:
    """DescribeGroups."""
    stable(probe, "describe", protocols=("range", "sticky"))
    for version in versions("describe_groups"):
        body = {"groups": ["describe"], "include_authorized_operations": True}
        probe.ask(f"v{version}", "describe_groups", version, body)
        probe.ask(f"v{version}, unknown", "describe_groups", version, {"groups": ["no-group"]})
    probe.ask("nothing", "describe_groups", 6, {"groups": []})
    probe.ask("one twice and one unknown", "describe_groups", 6,
              {"groups": ["describe", "no-group", "describe"]})  # fmt: skip
    probe.ask("unknown, with operations, v5", "describe_groups", 5,
              {"groups": ["no-group"], "include_authorized_operations": True})  # fmt: skip
    probe.ask("unknown, with operations, v6", "describe_groups", 6,
              {"groups": ["no-group"], "include_authorized_operations": True})  # fmt: skip
    probe.must("join_group", JOIN, join("describe-static", instance="i"))
    describe(probe, "a static member", "describe-static")


def delete_groups(probe: GroupProbe) -> None:
    """DeleteGroups."""
    probe.topic("delete-topic")
    offsets = {"delete-topic": {0: 1}}
    for version in versions("delete_groups"):
        group = f"delete-v{version}"
        probe.must("offset_commit", 9, commit(group, offsets))
        probe.ask(f"v{version}", "delete_groups", version, {"groups_names": [group]})
        probe.ask(f"v{version}, again", "delete_groups", version, {"groups_names": [group]})
        probe.ask(f"v{version}, its offsets", "offset_fetch", 9, fetch(group, None))
        describe(probe, f"v{version}, the group then", group)
    made = stable(probe, "delete-stable")
    probe.must("offset_commit", 9, commit("delete-other", offsets))
    probe.ask("one with members, one without, one unknown", "delete_groups", 2,
              {"groups_names": ["delete-stable", "delete-other", "no-group"]})  # fmt: skip
    probe.must("offset_commit", 9, commit("delete-twice", offsets))
    probe.ask("one twice", "delete_groups", 2, {"groups_names": ["delete-twice", "delete-twice"]})
    probe.ask("nothing", "delete_groups", 2, {"groups_names": []})
    joined(probe, "delete-completing", 1)
    probe.ask("before the leader synced", "delete_groups", 2,
              {"groups_names": ["delete-completing"]})  # fmt: skip
    given_id(probe, "delete-id", "a")
    probe.ask("with only an id given", "delete_groups", 2, {"groups_names": ["delete-id"]})
    probe.must("leave_group", 5, leave("delete-stable", (made.ids[0], None)))
    probe.ask("after the last left", "delete_groups", 2, {"groups_names": ["delete-stable"]})
    answer = probe.ask("it begins anew", "join_group", 3, join("delete-stable"))
    probe.ask("and leaves", "leave_group", 2, leave("delete-stable", (answer["member_id"], None)))


SCENARIOS: tuple[GroupScenario, ...] = (list_groups, describe_groups, delete_groups)
