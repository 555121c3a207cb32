"""Every offset is read by exactly one task, in order, and tasks have about the same to do."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from barnabas.spark.places import Place, Span
from barnabas.spark.source.planning import PlanRule, TaskSpans, divide, plan
from barnabas.spark.source.sizes import bytes_of

MIB = 1024 * 1024


@st.composite
def spans_and_sizes(draw: st.DrawFn) -> tuple[list[Span], dict[Place, float]]:
    spans, sizes = [], {}
    for number in range(draw(st.integers(0, 8))):
        place = Place(draw(st.sampled_from(["a", "b"])), number)
        start = draw(st.integers(0, 2**40))
        spans.append(Span(place, start, start + draw(st.integers(0, 5000))))
        sizes[place] = draw(st.floats(0.01, 1e6))
    return spans, sizes


def rules() -> st.SearchStrategy[PlanRule]:
    return st.builds(
        PlanRule,
        task_bytes=st.integers(MIB, 256 * MIB),
        tasks_min=st.none() | st.integers(1, 50),
        task_offsets_max=st.none() | st.integers(50, 5000),
        cores=st.integers(1, 8),
    )


@given(spans_and_sizes(), rules())
def test_every_offset_once_and_in_order(
    given_: tuple[list[Span], dict[Place, float]], rule: PlanRule
) -> None:
    spans, sizes = given_
    tasks = plan(spans, sizes, rule)
    reached = {span.place: span.start for span in spans}
    for task in tasks:
        assert task.spans
        for span in task.spans:
            assert span.offsets > 0
            assert span.start == reached[span.place]
            reached[span.place] = span.end
    assert reached == {span.place: span.end for span in spans}


@given(spans_and_sizes(), rules())
def test_so_many_tasks_and_none_with_too_much(
    given_: tuple[list[Span], dict[Place, float]], rule: PlanRule
) -> None:
    spans, sizes = given_
    tasks = plan(spans, sizes, rule)
    offsets = sum(span.offsets for span in spans)
    wanted = rule.tasks(bytes_of(spans, sizes), offsets)
    if rule.task_offsets_max is None:
        assert len(tasks) == wanted
    else:
        assert len(tasks) >= wanted
        assert all(sum(s.offsets for s in t.spans) <= rule.task_offsets_max for t in tasks)
    assert len(tasks) <= offsets


@given(spans_and_sizes(), st.integers(1, 40))
def test_tasks_have_about_the_same_to_do(
    given_: tuple[list[Span], dict[Place, float]], shares: int
) -> None:
    spans = [span for span in given_[0] if span.offsets]
    sizes = given_[1]
    if sum(span.offsets for span in spans) < shares:
        return
    even = bytes_of(spans, sizes) / shares
    for share in divide(spans, sizes, shares):
        largest = max(sizes[span.place] for span in share)
        # A cut may be snapped to an edge on both sides, and falls between two offsets.
        assert bytes_of(share, sizes) <= even * 1.2 + largest * 1.01


def test_a_hot_partition_is_cut_and_cold_ones_are_joined() -> None:
    hot, cold = Place("t", 0), [Place("t", number) for number in range(1, 9)]
    spans = [Span(hot, 0, 1000), *(Span(place, 0, 10) for place in cold)]
    sizes = {hot: MIB * 1.0} | dict.fromkeys(cold, MIB * 1.0)
    tasks = plan(spans, sizes, PlanRule(task_bytes=500 * MIB, cores=2))
    assert tasks == [
        TaskSpans([Span(hot, 0, 360)]),
        TaskSpans([Span(hot, 360, 720)]),
        TaskSpans([Span(hot, 720, 1000), *spans[1:]]),
    ]


def test_a_cut_near_an_edge_is_made_at_the_edge() -> None:
    one, two = Place("t", 0), Place("t", 1)
    spans = [Span(one, 0, 104), Span(two, 0, 96)]
    assert divide(spans, {one: 1.0, two: 1.0}, 2) == [[spans[0]], [spans[1]]]


def test_how_many_tasks() -> None:
    rule = PlanRule(task_bytes=64 * MIB, cores=4)
    assert rule.tasks(100, 10) == 1
    assert rule.tasks(MIB + 1, 10_000) == 2
    assert rule.tasks(100 * MIB, 10_000) == 4
    assert rule.tasks(1000 * MIB, 10_000) == 16
    assert rule.tasks(1000 * MIB, 3) == 3
    assert PlanRule(task_bytes=64 * MIB, cores=4, tasks_min=9).tasks(100, 20) == 9
    assert plan([], {}, rule) == []


def test_what_travels_to_tasks_pickles() -> None:
    task = TaskSpans([Span(Place("t", 0), 3, 9)])
    assert pickle.loads(pickle.dumps(task)) == task
