"""The table of scenarios that every library goes through as members of groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.compat.group_member import GOING, Commit, GroupMember, Way
from tests.compat.group_stage import SHORT_MS, GroupStage


def balanced_as_members_come_and_leave(stage: GroupStage) -> None:
    with stage.feed.running():
        members = stage.join(3)
        stage.balanced(members)
        members += stage.join()
        stage.balanced(members)
        members.pop(0).leave()
        stage.balanced(members)
    stage.seen(stage.members)
    stage.never_owned_twice()


def the_killed_are_replaced(stage: GroupStage) -> None:
    with stage.feed.running():
        members = stage.join(3)
        stage.balanced(members)
        members.pop(0).kill()
        stage.balanced(members)
    stage.seen(stage.members)


def the_paused_are_replaced_and_cannot_commit(stage: GroupStage) -> None:
    late, *others = members = stage.join(3)
    stage.balanced(members)
    stage.seen(members, stage.feed.send(60))
    # It stops in mid-work, with messages it has read: the first thing it will do is to commit them.
    late.commit(after_s=2.0)
    stage.until("working", lambda: late.said("working") == 1)
    late.pause()
    refused = late.said("refused")
    stage.balanced(others)
    stage.seen(others, stage.feed.send(60))
    stage.until("committed", lambda: sum(stage.committed().values()) == 120)
    late.resume()
    stage.until("refused", lambda: late.said("refused") > refused)
    stage.balanced(members)
    assert sum(stage.committed().values()) == 120, "\n".join(map(str, members))
    stage.seen(members, stage.feed.send(60))
    stage.until("committed", lambda: sum(stage.committed().values()) == 180)


def nobody_stops_needlessly(stage: GroupStage) -> None:
    with stage.feed.running():
        members = stage.join(2)
        stage.balanced(members)
        before = {member: (member.owned, len(member.history)) for member in members}
        (newcomer,) = stage.join()
        stage.balanced([*members, newcomer])
        for member, (owned, events) in before.items():
            given_up = went_away(member, events)
            assert given_up == owned - member.owned, str(member)
        assert newcomer.owned == frozenset().union(*(owned for owned, _ in before.values())) - (
            frozenset().union(*(member.owned for member in members))
        )
        since = {member: len(member.history) for member in members}
        newcomer.leave()
        stage.balanced(members)
        assert all(not went_away(member, events) for member, events in since.items())
    stage.seen(stage.members)
    stage.never_owned_twice()


def each_group_sees_everything_and_each_member_its_share(stage: GroupStage) -> None:
    alone = stage.join(group=f"{stage.group}-alone")
    many = stage.join(3)
    stage.balanced(alone)
    stage.balanced(many)
    values = stage.feed.send(300)
    stage.seen_once(alone, values)
    stage.seen_once(many, values)
    assert all(member.received for member in many)


def goes_on_where_it_was(commit: Commit) -> Callable[[GroupStage], None]:
    def play(stage: GroupStage) -> None:
        members = stage.join(2, commit=commit)
        stage.balanced(members)
        first = stage.feed.send(60)
        stage.seen_once(members, first)
        unsaved: list[str] = []
        if commit == "told":
            for member in members:
                member.commit()
            stage.until("committed", lambda: all(member.said("committed") for member in members))
            unsaved = stage.feed.send(30)
            stage.seen(members, unsaved)
        for member in members:
            member.leave()
        assert sum(stage.committed().values()) == len(first)
        fresh = stage.feed.send(60)
        (single,) = stage.join(commit=commit)
        stage.seen_once([single], unsaved + fresh)

    return play


def a_static_member_restarts_unnoticed(stage: GroupStage) -> None:
    (one,) = stage.join(instance_id="one")
    (other,) = stage.join(instance_id="other")
    stage.balanced([one, other])
    stage.seen([one, other], stage.feed.send(60))
    owned = one.owned

    def restart() -> None:
        one.leave()
        (again,) = stage.join(instance_id="one")
        stage.balanced([again, other])
        assert again.owned == owned

    stage.calm([other], restart)
    stage.feed.send(60)
    stage.seen_once(stage.members, stage.feed.sent)


def together(ways: Sequence[Way]) -> Callable[[GroupStage], None]:
    """One group of several libraries; each of them gets to lead it."""

    def play(stage: GroupStage) -> None:
        with stage.feed.running():
            members = [member for way in ways for member in stage.join(way=way)]
            stage.balanced(members)
            for way in ways:
                members.pop(0).leave()
                stage.balanced(members)
                members += stage.join(way=way)
                stage.balanced(members)
        stage.seen(stage.members)
        stage.never_owned_twice()

    return play


def went_away(member: GroupMember, since: int) -> frozenset[tuple[str, int]]:
    """Every partition that was taken from it after so many events."""
    gone = [event.places for event in member.history[since:] if event.kind in GOING]
    return frozenset().union(*gone)


@dataclass(frozen=True)
class GroupScenario:
    """One row of the table."""

    play: Callable[[GroupStage], None]
    name: str
    session_ms: int | None = None
    suits: Callable[[Way], bool] = lambda _: True


def _row(play: Callable[[GroupStage], None], session_ms: int | None = None,
         suits: Callable[[Way], bool] = lambda _: True) -> GroupScenario:  # fmt: skip
    return GroupScenario(play, play.__name__.replace("_", " "), session_ms, suits)


GROUP_SCENARIOS: Final = (
    _row(the_paused_are_replaced_and_cannot_commit, SHORT_MS),
    _row(the_killed_are_replaced, SHORT_MS),
    _row(balanced_as_members_come_and_leave),
    _row(nobody_stops_needlessly, suits=lambda way: way.cooperative),
    _row(each_group_sees_everything_and_each_member_its_share),
    GroupScenario(goes_on_where_it_was("auto"), "goes on where it was, auto commit"),
    GroupScenario(goes_on_where_it_was("told"), "goes on where it was, manual commit"),
    _row(a_static_member_restarts_unnoticed, suits=lambda way: way.static),
)
