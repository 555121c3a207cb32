"""What to do about records that can not be read: fail with a sentence, or go on with a warning."""

import logging
from typing import Final

from barnabas.spark.errors import DataLostError
from barnabas.spark.places import Place

_log: Final = logging.getLogger("barnabas.spark")


class Losses:
    """The one place that knows what `failOnDataLoss` means for a reader.

    Each method returns only where the job goes on without the records.
    """

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail

    def before_log_start(self, place: Place, first: int, end: int, log_start: int) -> None:
        """Offsets from `first` up to and without `end` were deleted."""
        self._lost(
            f"Offsets {first} to {end - 1} of {place} are gone, its log begins at {log_start} now: "
            "retention or a deletion came before the query did.",
            "Raise the topic's retention or read it more often",
        )

    def behind_log_end(self, place: Place, offset: int, end: int, log_end: int) -> None:
        """The log ends before the offsets that were planned."""
        self._lost(
            f"{place} ends at offset {log_end}, but offsets {offset} to {end - 1} were to be "
            "read: its end was lost, or the topic was made anew.",
            "If endingOffsets says so, lower it; if the topic was made anew, start the query with "
            "a new checkpoint; if brokers lost the records, have them written again",
        )

    def unknown_topic(self, place: Place, first: int, end: int) -> None:
        """The topic is no longer there."""
        self._lost(
            f"{place} does not exist any more, and offsets {first} to {end - 1} of it were to be "
            "read: it was deleted after the query was planned.",
            "Take it out of the query's topics",
        )

    def damaged(self, place: Place, offset: int, end: int, problem: str) -> None:
        """A batch is not as it was written."""
        until = "" if end <= offset + 1 else f" to {end - 1}"
        self._lost(
            f"The batch at offset {offset}{until} of {place} is damaged ({problem}).",
            "See what is left with `barnabas log verify` on its broker, and have the records "
            "written again",
        )

    def _lost(self, what: str, advice: str) -> None:
        if self._fail:
            raise DataLostError(f"{what} {advice}, or set failOnDataLoss=false to go on without.")
        _log.warning("%s The query goes on without (failOnDataLoss=false).", what)
