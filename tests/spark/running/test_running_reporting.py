"""What `status.json` says through runs that go well, and through those that are refused."""

from pathlib import Path

import pytest

from barnabas.cli.pipeline_status import find_locally
from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.reading import read
from barnabas.spark.pipelines.reporting import Reporter
from barnabas.spark.pipelines.state import State
from barnabas.spark.pipelines.status import Status


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    file = tmp_path / "words.yaml"
    file.write_text(
        "pipeline: words\nservers: 127.0.0.1:9\nsources:\n  words: {topic: words, format: text}\n"
        "sinks:\n  kept: {from: words, table: kept}\n"
    )
    found = read(str(file))
    Path(found.state).mkdir(parents=True)
    return found


def reporter(pipeline: Pipeline, run: str) -> Reporter:
    status = Status(pipeline.name, pipeline.file, run=run)
    return Reporter(State.of(pipeline), status, pytest.fail)


def test_a_run_that_is_refused_forgets_nothing(pipeline: Pipeline) -> None:
    first = reporter(pipeline, "1")
    kept = first.query("kept", "words.kept")
    kept.input_total, kept.batches_total, kept.lag, kept.phase = 5000, 7, 3, "running"
    # It was killed: nobody has said that it ended.
    first.phase("running")
    for run in ("2", "3"):
        refused = reporter(pipeline, run)
        assert not refused.ran_before
        refused.phase("starting")
        refused.phase("failed", "No broker answers.")
        found = find_locally(pipeline)
        (query,) = found.queries
        assert (query.input_total, query.batches_total, query.lag) == (5000, 7, 3)
        assert found.phase_of(query) == "stopped"
    last = reporter(pipeline, "4")
    assert last.query("kept", "words.kept").input_total == 5000


def test_a_driver_that_died_before_any_query_is_not_taken_for_one_that_ran(
    pipeline: Pipeline,
) -> None:
    reporter(pipeline, "1").query("kept", "words.kept").input_total = 5
    begun = reporter(pipeline, "2")
    begun.phase("starting")
    again = reporter(pipeline, "2")
    assert not again.ran_before
    again.query("kept", "words.kept")
    again.phase("running")
    assert reporter(pipeline, "2").ran_before
