"""What an archive or a replay died of: one sentence for a person, the rest in Spark's log."""

from pathlib import Path

import pytest

from barnabas.spark.archives.layout import ArchiveError
from barnabas.spark.archives.troubles import as_one_sentence
from barnabas.spark.errors import SparkJobError, UnavailableError


def raised(folder: Path, error: Exception) -> SparkJobError:
    with (
        pytest.raises(SparkJobError) as told,
        as_one_sentence(str(folder), str(folder / "_spark.log")),
    ):
        raise error
    return told.value


def test_a_full_disk_is_named_and_may_have_room_again(tmp_path: Path) -> None:
    error = RuntimeError("[STREAM_FAILED] Query [x] terminated with exception: Job aborted.")
    error.__cause__ = OSError(28, "No space left on device")
    said = raised(tmp_path, error)
    assert isinstance(said, UnavailableError)
    assert str(said).startswith("The disk of ")
    assert f"{tmp_path}" in str(said)
    assert "\n" not in str(said)
    assert "RuntimeError: [STREAM_FAILED]" in (tmp_path / "_spark.log").read_text()


def test_what_needs_a_change_still_does(tmp_path: Path) -> None:
    said = raised(tmp_path, RuntimeError("[DATA_SOURCE_NOT_FOUND] It is not there.\n\tat a.b(c)"))
    assert not said.restart_helps
    assert str(said) == "[DATA_SOURCE_NOT_FOUND] It is not there."


def test_a_sentence_of_ours_stays_as_it_is(tmp_path: Path) -> None:
    error = ArchiveError("It is no archive.")
    assert raised(tmp_path, error) is error
    assert not list(tmp_path.iterdir())
