"""What an archive or a replay died of: a sentence for a person, and all of it in Spark's log."""

import contextlib
import traceback
from collections.abc import Iterator

from barnabas.model.errors import BarnabasError
from barnabas.spark.deaths import job_error, needs_change, sentence_of
from barnabas.spark.errors import SparkJobError, UnavailableError
from barnabas.spark.full_disks import full_disk


def told(folder: str, error: Exception) -> str:
    """One sentence, which names the disk where that is what is full."""
    return full_disk(error, [folder]) or sentence_of(error)


@contextlib.contextmanager
def as_one_sentence(folder: str, log: str) -> Iterator[None]:
    """Whatever is raised within, as an error that has no more to say than its sentence."""
    try:
        yield
    except Exception as error:
        ours = error if isinstance(error, BarnabasError) else job_error(error)
        if ours is not None and full_disk(error, [folder]) is None:
            raise
        _write_down(error, log)
        kind = SparkJobError if needs_change(error) else UnavailableError
        raise kind(told(folder, error)) from error


def _write_down(error: Exception, log: str) -> None:
    # The log may be on the very disk that is full.
    with contextlib.suppress(OSError), open(log, "a", encoding="utf-8", errors="replace") as file:
        traceback.print_exception(error, file=file)
