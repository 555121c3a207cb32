"""Is what shall be read still there? Asked on the driver, before tasks are given anything to do."""

import json
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.spark.errors import SparkJobError, UnknownTopicError
from barnabas.spark.places import Place, Span, is_offsets, listed, offsets_from_json
from barnabas.spark.source.losses import Losses
from barnabas.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from barnabas.spark.cluster.cluster import Cluster


class DriverLosses(Losses):
    """What only the driver can notice, besides what every reader can."""

    def deleted(self, places: Iterable[Place]) -> None:
        """Partitions that the query has read from are not there any more."""
        self._lost(
            f"{listed(sorted(places), most=5)} does not exist any more, and the query was reading "
            "it: the topic was deleted, and what was not read by then is lost.",
            "Make the topic again and give the query a new checkpointLocation",
        )

    def not_subscribed(self, places: Iterable[Place]) -> None:
        """The checkpoint holds partitions that the options do not ask for."""
        self._lost(
            f"The checkpoint holds offsets of {listed(sorted(places), most=5)}, which this query "
            "does not read: it seems to belong to another query.",
            "Give every query a checkpointLocation of its own; if you took the topic off this "
            "query's options on purpose, put it back",
        )

    def went_back(self, place: Place, offset: int, log_end: int) -> None:
        """The log ends before what has been read already."""
        self._lost(
            f"{place} ends at offset {log_end}, but the query is at {offset}: the topic was "
            "deleted and made anew, or brokers lost its end, or startingOffsets is too high.",
            "Start a new query, with a checkpointLocation of its own",
        )


def offsets_of(value: Any) -> dict[Place, int]:
    """Offsets out of a checkpoint, which may be any query's."""
    if not is_offsets(value):
        shown = json.dumps(value)[:200]
        raise SparkJobError(
            f"The checkpoint holds {shown}, which are no offsets of topics: it seems to belong to "
            "another query. Give every query a checkpointLocation of its own."
        )
    return offsets_from_json(value)


def high_watermarks(
    cluster: "Cluster", needed: Mapping[Place, int], options: SourceOptions
) -> dict[Place, int]:
    """Where the partitions end; asked a few times where that is before the offset needed.

    A leader that was just elected may not know yet how far the log is committed
    (`fetchOffset.numRetries`, `fetchOffset.retryIntervalMs`).
    """
    marks = cluster.latest(needed.keys(), committed=False)
    for _ in range(options.offset_attempts - 1):
        short = [place for place, mark in marks.items() if mark < needed[place]]
        if not short:
            break
        time.sleep(options.offset_attempt_interval_s)
        marks |= cluster.latest(short, committed=False)
    return marks


def spans_there(cluster: "Cluster", spans: Collection[Span], options: SourceOptions) -> list[Span]:
    """The spans, cut to what the logs hold; DataLostError if that is less and must not be."""
    losses = DriverLosses(fail=options.fail_on_data_loss)
    wanted = {span.place: span for span in spans if span.offsets > 0}
    try:
        first = cluster.earliest(wanted.keys())
        marks = high_watermarks(cluster, _ends(wanted), options)
    except UnknownTopicError:
        there = set(options.subscription.places_left(cluster))
        for span in [span for place, span in wanted.items() if place not in there]:
            losses.unknown_topic(*wanted.pop(span.place))
        first = cluster.earliest(wanted.keys())
        marks = high_watermarks(cluster, _ends(wanted), options)
    return [_cut(span, first[place], marks[place], losses) for place, span in wanted.items()]


def _ends(spans: Mapping[Place, Span]) -> dict[Place, int]:
    return {place: span.end for place, span in spans.items()}


def _cut(span: Span, log_start: int, log_end: int, losses: Losses) -> Span:
    place, start, end = span
    if start < log_start:
        losses.before_log_start(place, start, min(end, log_start), log_start)
        start = min(end, log_start)
    if end > log_end:
        losses.behind_log_end(place, max(start, log_end), end, log_end)
        end = max(start, log_end)
    return Span(place, start, end)
