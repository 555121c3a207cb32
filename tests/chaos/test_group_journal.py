"""The checker of groups itself: what must not be does not escape it, what may be is not held
against anybody, and a broker with a planted defect is found out."""

from pathlib import Path

import pytest
from tests.chaos.group_asks import Committed, Description
from tests.chaos.group_journal import GroupJournal
from tests.chaos.group_lives import Cast, GroupLives
from tests.chaos.group_moments import Phase
from tests.chaos.group_planted_broker import PlantedBroker

_P, _Q = ("t", 0), ("t", 1)
_G = "g"


@pytest.fixture
def journal() -> GroupJournal:
    return GroupJournal()


def _committed(journal: GroupJournal, offset: int) -> None:
    for each in range(offset):
        journal.consume(_G, _P, each)
    journal.try_commit(_G, {_P: offset})
    journal.commit(_G, {_P: offset})


def _fetched(journal: GroupJournal, found: Committed | None) -> None:
    journal.fetch(_G, journal.floors(_G), {} if found is None else {_P: found})


def test_offsets_that_go_forward_are_no_problem(journal: GroupJournal) -> None:
    _committed(journal, 5)
    _fetched(journal, Committed(5, "5"))
    journal.try_commit(_G, {_P: 7})
    _fetched(journal, Committed(7, "7"))
    for each in (5, 6):
        journal.consume(_G, _P, each)
    assert journal.unanswered(_G, {_P: Committed(7, "7")}) == 1
    journal.cover(_G, {_P: Committed(7, "7")})
    assert not journal.problems


@pytest.mark.parametrize("found", [Committed(4, "4"), Committed(6, "6"), Committed(5, "4"), None])
def test_offsets_that_are_lost_or_made_up(journal: GroupJournal, found: Committed | None) -> None:
    _committed(journal, 5)
    _fetched(journal, found)
    assert len(journal.problems) == 1


def test_an_offset_that_was_only_seen_must_not_go_back(journal: GroupJournal) -> None:
    journal.try_commit(_G, {_P: 7})
    _fetched(journal, Committed(7, "7"))
    _fetched(journal, None)
    assert len(journal.problems) == 1


def test_a_record_that_nobody_consumed(journal: GroupJournal) -> None:
    for each in (0, 2):
        journal.consume(_G, _P, each)
    journal.cover(_G, {_P: Committed(3, "3")})
    assert len(journal.problems) == 1


def test_partitions_of_a_generation(journal: GroupJournal) -> None:
    journal.join(_G, 3, journal.newest_generation(_G))
    journal.sync(_G, 3, "a", frozenset({_P}))
    journal.sync(_G, 3, "b", frozenset({_Q}))
    journal.sync(_G, 3, "a", frozenset({_P}))
    journal.sync(_G, 4, "b", frozenset({_P, _Q}))
    assert not journal.problems
    journal.sync(_G, 4, "a", frozenset({_Q}))
    assert len(journal.problems) == 1


def test_a_share_that_becomes_another(journal: GroupJournal) -> None:
    journal.sync(_G, 3, "a", frozenset({_P}))
    journal.sync(_G, 3, "a", frozenset({_Q}))
    assert len(journal.problems) == 1


def test_generations_and_epochs_that_go_back(journal: GroupJournal) -> None:
    journal.sync(_G, 3, "a", frozenset({_P}))
    newest = journal.newest_generation(_G)
    journal.join(_G, 2, newest)
    journal.commit(_G, {_P: 1}, generation=2, newest=newest)
    for epoch in (4, 3):
        journal.member_epoch(_G, "a", epoch)
        journal.describe(_G, Description("Stable", {}, epoch))
    assert len(journal.problems) == 4


def test_a_partition_is_owned_until_it_is_given_up(journal: GroupJournal) -> None:
    journal.own(_G, "a", 1, [_P, _Q])
    journal.keep(_G, "a", [_Q])
    journal.own(_G, "b", 2, [_P])
    assert not journal.problems
    journal.own(_G, "b", 2, [_Q])
    assert len(journal.problems) == 1


def test_a_description_with_a_partition_owned_twice(journal: GroupJournal) -> None:
    share = frozenset({_P})
    journal.describe(_G, Description("Stable", {"a": share, "b": frozenset({_Q})}, -1))
    assert not journal.problems
    journal.describe(_G, Description("Stable", {"a": share, "b": share}, -1))
    assert len(journal.problems) == 1


def test_a_later_run_knows_what_the_earlier_knew(journal: GroupJournal) -> None:
    _committed(journal, 5)
    journal.sync(_G, 3, "a", frozenset({_P}))
    journal.describe(_G, Description("Stable", {}, 9))
    later = GroupJournal()
    later.resume(journal.to_json())
    later.begin_at(_G, {_P: Committed(4, "4")})
    _fetched(later, Committed(4, "4"))
    later.describe(_G, Description("Stable", {}, 8))
    assert later.newest_generation(_G) == 3
    assert len(later.problems) == 2


_CLASSIC = Cast(raw_classic=3, raw_consumer=0, eager=0, cooperative=0, consumer=0)
_CONSUMER = Cast(raw_classic=0, raw_consumer=3, eager=0, cooperative=0, consumer=0)
_TRIES = 12  # the first is nearly always enough; a busy machine may commit nothing in a short life


@pytest.mark.parametrize(
    ("defect", "cast", "complaint"),
    [
        ("answers_before_writing", _CONSUMER, "was committed"),
        ("forgets_generations", _CLASSIC, "came after"),
        ("waits_for_no_release", _CONSUMER, "owns it"),
        ("gives_all_the_first_share", _CLASSIC, "is owned by"),
    ],
)
def test_a_planted_defect_is_found(tmp_path: Path, defect: str, cast: Cast, complaint: str) -> None:
    lives = GroupLives(tmp_path / defect, 7, cast=cast, kind=PlantedBroker, patience_s=1.0)
    try:
        lives.open()
        for _ in range(_TRIES):
            if not any(complaint in each for each in lives.problems):
                lives.end_life(Phase.COMMITTING, 0.3, 0.6, is_kill=True)
    finally:
        lives.close()
    assert any(complaint in each for each in lives.problems), lives.problems
