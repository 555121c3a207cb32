"""Which offsets a replay is planned for, without Spark: those from one on, up to another."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.archives.test_archives_compaction import Growing, rows

from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.layout import ArchiveError, Range
from barnabas.spark.archives.replay_plan import Plan, Selection, Target, make_plan, plan_id

FIRST, END = 0, 60
TARGET = Target("orders", "id", "cluster", "exactly-once", by_key=False)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """Partition 0 in three files of different sizes, partition 1 in one."""
    growing = Growing(tmp_path_factory.mktemp("ranges") / "a")
    growing.add({0: 7, 1: 20}, rows(0, range(7)), rows(1, range(20)))
    growing.add({0: 8}, rows(0, range(7, 8)))
    growing.add({0: END}, rows(0, range(8, END)))
    return growing.contents


def planned(contents: Contents, selection: Selection, chunk_bytes: int = 10**9) -> Plan:
    return make_plan(contents, "id", selection, (None, None), chunk_bytes)


@given(st.integers(FIRST, END), st.integers(FIRST, END), st.integers(1, 3000))
def test_the_chunks_are_the_range_and_nothing_else(
    contents: Contents, one: int, other: int, chunk_bytes: int
) -> None:
    first, end = sorted((one, other))
    chosen = Selection(((0, first),), to_offsets=((0, end),))
    plan = planned(contents, chosen, chunk_bytes)
    offsets = [offset for chunk in plan.chunks for offset in range(*chunk[0])]
    assert offsets == list(range(first, end))
    assert plan.records == end - first


@given(st.integers(FIRST, END))
def test_an_end_is_where_a_beginning_goes_on(contents: Contents, at: int) -> None:
    before = planned(contents, Selection(to_offsets=((0, at),)))
    after = planned(contents, Selection(((0, at),)))
    ranges = [chunk[0] for plan in (before, after) for chunk in plan.chunks]
    wanted = [Range(FIRST, at), Range(at, END)]
    assert ranges == [each for each in wanted if each.first < each.end]


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(), {0: (0, 60), 1: (0, 20)}),
        (Selection(to_offsets=((0, 60),)), {0: (0, 60)}),
        (Selection(to_offsets=((1, 1),)), {1: (0, 1)}),
        (Selection(((0, 7),), to_offsets=((0, 8),)), {0: (7, 8)}),
        (Selection(((0, 59),), to_offsets=((0, 60),)), {0: (59, 60)}),
        (Selection(((0, 30),), to_offsets=((1, 5),)), {0: (30, 60), 1: (0, 5)}),
        (Selection(partitions=(0, 1), to_offsets=((1, 5),)), {0: (0, 60), 1: (0, 5)}),
        (Selection(to_offsets=((0, 0), (1, 5))), {1: (0, 5)}),
    ],
)
def test_partitions_that_are_named_are_meant(
    contents: Contents, selection: Selection, wanted: dict[int, tuple[int, int]]
) -> None:
    assert planned(contents, selection).chunks == (wanted,)


@pytest.mark.parametrize(
    "selection",
    [
        Selection(to_offsets=((0, 0),)),
        Selection(((0, 7),), to_offsets=((0, 7),)),
        Selection(((0, 9),), to_offsets=((0, 9),)),
        Selection(((0, 60),), to_offsets=((0, 60),)),
    ],
)
def test_what_ends_where_it_begins_is_nothing(contents: Contents, selection: Selection) -> None:
    plan = planned(contents, selection)
    assert [plan.chunks, plan.records] == [(), 0]


@pytest.mark.parametrize(
    ("selection", "sentence"),
    [
        (
            Selection(to_offsets=((0, 61),)),
            r"has offsets 0 to 59 of partition 0, .* up to 61: choose .* the one after the last\.$",
        ),
        (Selection(((1, 5),), to_offsets=((1, 10**18),)), "up to 1000000000000000000: choose"),
        (Selection(to_offsets=((2, 1),)), "has no partition 2 of orders: it has 0, 1"),
        (Selection(((0, 61),), to_offsets=((0, 62),)), "can not be replayed from 61: choose one"),
    ],
)
def test_what_the_archive_does_not_have_is_refused(
    contents: Contents, selection: Selection, sentence: str
) -> None:
    with pytest.raises(ArchiveError, match=sentence):
        planned(contents, selection)


def test_offsets_before_the_archive_are_refused(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a")
    growing.add({0: 5}, rows(0, range(5)))
    with pytest.raises(ArchiveError, match="can not be replayed up to -1: choose"):
        planned(growing.contents, Selection(to_offsets=((0, -1),)))


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_an_end_before_the_beginning_is_refused(first: int, end: int) -> None:
    if first <= end:
        assert Selection(((3, first),), to_offsets=((3, end),)).to_offsets == ((3, end),)
        return
    sentence = f"^--to-offset 3:{end} is before --from-offset 3:{first}: choose an end"
    with pytest.raises(ArchiveError, match=sentence):
        Selection(((3, first),), to_offsets=((3, end),))


def test_an_end_within_a_file_with_few_records_is_replayed_too(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a")
    growing.add({0: 1000}, rows(0, range(1)))
    plan = planned(growing.contents, Selection(to_offsets=((0, 1),)))
    assert plan.chunks == ({0: Range(0, 1)},)


def test_another_end_is_another_replay() -> None:
    archive = cast(Contents, SimpleNamespace(snapshot=SimpleNamespace(table_id="a-table")))
    chosen = [
        Selection(),
        Selection(((0, 5),)),
        Selection(to_offsets=((0, 5),)),
        Selection(to_offsets=((0, 6),)),
        Selection(((0, 5),), to_offsets=((0, 6),)),
    ]
    ids = [plan_id(archive, each, TARGET) for each in chosen]
    assert len(set(ids)) == len(chosen)
    # As they were before there were ends: a replay that was begun then is gone on with.
    before = Selection(((0, 5),), (1,), "-1h", "-1m")
    assert [ids[0], plan_id(archive, before, TARGET)] == ["927fb7d73f8aefbb", "2ab004d526d04f50"]
