"""The same Spark jobs on our connector and on Spark's own, both against Barnabas: equal results."""

import re
from collections.abc import Iterator

import pytest
from tests.compat.clients.spark import cases_batch, cases_sink, cases_stream, jars, refusals
from tests.compat.clients.spark.harness import OFFICIAL, OURS, Bench
from tests.compat.clients.spark.known_differences import KNOWN, LAXER, STRICTER, unexplained
from tests.compat.clients.spark.sessions import both_connectors
from tests.compat.clients.spark.topics import BROKER, Topics

from barnabas.testing import Broker

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not jars.available(), reason="needs Java, and Maven once"),
]
STREAMED_SINKS = ("strings", "headers", "a partition column", "a topic column")
_differences: dict[str, list[str]] = {}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    home = tmp_path_factory.mktemp("spark-differential")
    with Broker(memory=False, config=BROKER) as broker:
        topics = Topics(broker.bootstrap_servers)
        unfinished = cases_batch.fill(topics)
        cases_stream.fill(topics)
        session = both_connectors(home)
        yield Bench(session, topics, home)
        session.stop()
        unfinished.abort_transaction(60)


def kept(name: str, lines: Iterator[str]) -> list[str]:
    """For the last test, which asks whether every explanation is needed."""
    _differences[name] = list(lines)
    return _differences[name]


@pytest.mark.parametrize("case", cases_batch.CASES, ids=lambda case: case.name)
def test_batch_reads_are_alike(bench: Bench, case: cases_batch.BatchCase) -> None:
    assert unexplained(kept(f"batch {case.name}", cases_batch.compare(bench, case))) == []


@pytest.mark.parametrize("case", cases_stream.CASES, ids=lambda case: case.name)
def test_streams_are_alike(bench: Bench, case: cases_stream.StreamCase) -> None:
    assert unexplained(kept(f"stream {case.name}", cases_stream.compare(bench, case))) == []


@pytest.mark.parametrize("turn", [(OFFICIAL, OURS), (OURS, OFFICIAL)], ids=" then ".join)
def test_a_checkpoint_moves_from_one_connector_to_the_other(
    bench: Bench, turn: tuple[str, str]
) -> None:
    expected, moved = cases_stream.change_connectors(bench, *turn)
    assert len(expected) == 2
    assert sum(len(each.rows) for each in expected) == 30
    assert moved == expected


@pytest.mark.parametrize("case", cases_sink.CASES, ids=lambda case: case.name)
def test_written_topics_are_alike(bench: Bench, case: cases_sink.SinkCase) -> None:
    assert unexplained(kept(f"sink {case.name}", cases_sink.compare(bench, case))) == []


@pytest.mark.parametrize(
    "case",
    [case for case in cases_sink.CASES if case.name in STREAMED_SINKS],
    ids=lambda case: case.name,
)
def test_topics_written_by_queries_are_alike(bench: Bench, case: cases_sink.SinkCase) -> None:
    assert list(cases_sink.compare_streamed(bench, case)) == []


@pytest.mark.parametrize("refusal", refusals.REFUSALS, ids=lambda refusal: refusal.name)
def test_both_refuse(bench: Bench, refusal: refusals.Refusal) -> None:
    official, ours = (refusals.words(bench, refusal, name) for name in (OFFICIAL, OURS))
    assert (official is None) == (refusal.name in STRICTER)
    assert (ours is None) == (refusal.name in LAXER)


def test_every_explanation_is_still_needed() -> None:
    cases = len(cases_batch.CASES) + len(cases_stream.CASES) + len(cases_sink.CASES)
    if len(_differences) < cases:
        pytest.skip("only all cases together can tell")
    lines = [line for found in _differences.values() for line in found]
    assert [row for row in KNOWN if not any(re.search(row[0], line) for line in lines)] == []
