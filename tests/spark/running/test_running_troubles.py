"""What a query died of, in a sentence with its place; and how Java's own errors are read."""

from pathlib import Path

import pytest
from tests.spark.session.no_java import MUTE

from barnabas.spark.deaths import job_error, sentence_of
from barnabas.spark.errors import DataLostError
from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.reading import read
from barnabas.spark.pipelines.troubles import told

OURS = "\nbarnabas.spark.errors.DataLostError: It is lost."
PLANS = [
    "[STREAM_FAILED] Query [x] terminated with exception: Oh.\n=== Streaming Query ===",
    "[UNRESOLVED_COLUMN] There is no such column. SQLSTATE: 42703; line 1 pos 15;\n'Project",
    "[UNSUPPORTED] It can not be. SQLSTATE: 0A000;\nProject",
]


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    file = tmp_path / "words.yaml"
    file.write_text(
        "pipeline: words\nservers: 127.0.0.1:9\nsources:\n"
        "  words: {topic: words, format: text, dead_letter: dead}\n"
        "sinks:\n  kept: {from: words, table: kept}\n"
    )
    return read(str(file))


@pytest.mark.parametrize("text", PLANS)
def test_an_error_that_a_plan_would_raise_is_not_taken_for_one(text: str) -> None:
    assert job_error(Exception(text + OURS)) is None
    assert isinstance(job_error(Exception(OURS + text)), DataLostError)


def test_java_says_what_it_is_after_its_call() -> None:
    said = "An error occurred while calling o82.start.\n: java.lang.X: It broke\n\tat a.b(c)"
    assert sentence_of(Exception(said)) == "It broke."


def test_what_spark_waited_for_says_what_it_died_of() -> None:
    said = "org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat a.b(c)"
    cause = "\nCaused by: org.apache.spark.sql.X$Failed: [LOST_STATE] It is gone. SQLSTATE: XX000"
    error = Exception("Exception thrown in awaitResult: ")
    assert sentence_of(error) == "Exception thrown in awaitResult:."
    error._stackTrace = said + cause  # type: ignore[attr-defined]
    assert sentence_of(error) == "[LOST_STATE] It is gone."


def test_a_sentence_names_sink_and_line(pipeline: Pipeline) -> None:
    error = DataLostError("It is lost.")
    assert told(pipeline, "kept", error) == f"{pipeline.file}:6: sink kept: It is lost."
    dead = told(pipeline, "dead-letter-words", error)
    assert dead == f"{pipeline.file}:4: query dead-letter-words: It is lost."


def test_a_java_that_is_gone_has_a_sentence_too(pipeline: Pipeline) -> None:
    said = told(pipeline, "kept", MUTE)
    assert said.startswith(f"{pipeline.file}:6: sink kept: Spark's Java did not answer: it ended")


def test_a_full_disk_is_named_wherever_it_was_met(pipeline: Pipeline) -> None:
    error = RuntimeError("[STREAM_FAILED] Query [x] terminated with exception: Job aborted.")
    error.__cause__ = OSError(28, "No space left on device")
    said = told(pipeline, "kept", error)
    assert said.startswith(f"{pipeline.file}:6: sink kept: The disk of ")
    assert pipeline.state in said
    assert "goes on once there is room" in said
