"""The stream reader: what Spark's driver asks it, micro-batch for micro-batch.

Spark journals the end of a batch before it runs it, and asks again for the same batch after a
crash: `partitions(start, end)` therefore goes by these two alone.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.errors import UnknownTopicError
from barnabas.spark.places import Offsets, Place, Span, offsets_to_json
from barnabas.spark.source.admission import Delay, Limits, admit
from barnabas.spark.source.continuity import (
    DriverLosses,
    high_watermarks,
    offsets_of,
    spans_there,
)
from barnabas.spark.source.options import SourceOptions
from barnabas.spark.source.planning import PlanRule, TaskSpans, plan
from barnabas.spark.source.progress import Progress
from barnabas.spark.source.sizes import Sizes
from barnabas.spark.source.starting import (
    LATEST,
    AtTime,
    AtTimes,
    Edge,
    Everywhere,
    Resolved,
    resolve,
)

if TYPE_CHECKING:
    import pyarrow as pa

_TRUE_FOR_S: Final = 0.05
"""An idle query asks 84 times a second whether there is something new."""


class Heads:
    """The ends of all partitions that the query reads, as they were a moment ago."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._places: tuple[Place, ...] = ()
        self._places_at = float("-inf")
        self._ends: dict[Place, int] = {}
        self._ends_at = float("-inf")
        self.missing: UnknownTopicError | None = None
        """What was said when something was asked for that does not exist."""

    def look(self) -> dict[Place, int]:
        """Ask the cluster, unless that was done just now."""
        if time.monotonic() - self._ends_at >= _TRUE_FOR_S:
            try:
                self._ends = self._ask()
            except UnknownTopicError as problem:
                # Gone since it was listed, or the reason why nothing could be listed.
                self.missing = problem
                self._places_at = float("-inf")
                self._ends = self._ask()
            self._ends_at = time.monotonic()
        return self._ends

    def _ask(self) -> dict[Place, int]:
        cluster = cluster_of(self._options.connection)
        if time.monotonic() - self._places_at >= self._options.partitions_cache_s:
            self._places = self._existing(cluster)
            self._places_at = time.monotonic()
        return cluster.latest(self._places, committed=self._options.committed)

    def _existing(self, cluster: Cluster) -> tuple[Place, ...]:
        subscription = self._options.subscription
        if self.missing is None:
            return subscription.places(cluster)
        places = subscription.places_left(cluster)
        if subscription.is_whole(places):
            self.missing = None
        return places


class BarnabasStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives on the driver as long as the query; tasks get copies that only read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._heads = Heads(options)
        self._losses = DriverLosses(fail=options.fail_on_data_loss)
        self._progress = Progress(options.connection, options.group)
        self._sizes = Sizes()
        self._delay = Delay()
        self._initial: Resolved | None = None
        self._initial_read = False
        self._target: dict[Place, int] | None = None
        self._seen: dict[Place, int] = {}
        self._planned: tuple[Offsets, Offsets, list[TaskSpans]] | None = None

    def __getstate__(self) -> SourceOptions:
        return self._options

    def __setstate__(self, options: SourceOptions) -> None:
        self.__init__(options)  # type: ignore[misc]

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """Where a new query begins. Spark asks several times; there is one answer."""
        if self._initial is None:
            if self._target is not None and self._options.start == Everywhere(LATEST):
                # All that was there when the query began is where it begins, and ends.
                target = self._target
                self._initial = Resolved(dict(target), frozenset(target))
            else:
                cluster = cluster_of(self._options.connection)
                self._initial = resolve(
                    Edge.START,
                    self._options.start,
                    self._options.subscription.places(cluster),
                    cluster,
                    committed=self._options.committed,
                    late_start=self._options.late_start,
                )
        return offsets_to_json(self._initial.offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What the options say of limits, as far as Spark has words for it."""
        return Limits.of(self._options).default_read_limit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Everything up to the ends of now is read, in as many batches as the limits ask for."""
        self._target = dict(self._heads.look())

    def latestOffset(self, start: Any, limit: ReadLimit) -> Any:  # noqa: N802 - Spark's name
        """The end of the next batch; `start` itself when there is nothing to do."""
        begin = offsets_of(start)
        self._progress.reach(begin)
        self._seen = self._heads.look() if self._target is None else self._target
        end = self._ends(begin, self._seen)
        fresh = [place for place in end if place not in begin]
        base = begin | cluster_of(self._options.connection).earliest(fresh)
        limits = Limits.of(self._options).under(limit)
        new = sum(max(last - base[place], 0) for place, last in end.items())
        # With Trigger.AvailableNow nothing more would come, however long it waited.
        if self._target is None and self._delay.waits(limits, new, time.monotonic()):
            return start
        sizes = None if limits.bytes_max is None or not new else self._sizes_of(end)
        admitted = admit(base, end, limits, sizes)
        # The same object, not an equal one: Spark compares the text.
        return start if admitted == begin else offsets_to_json(admitted)

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802 - Spark's name
        """What there is to read, for the query's progress."""
        return offsets_to_json(self._seen) if self._seen else None

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        """What the tasks of one batch read: from `start` to `end`, whatever has come since."""
        # Spark asks twice for each batch.
        if self._planned is None or self._planned[:2] != (start, end):
            spans = self._spans(offsets_of(start), offsets_of(end))
            cluster = cluster_of(self._options.connection)
            there = spans_there(cluster, spans, self._options)
            sizes = self._sizes.per_offset(cluster, [span.place for span in there])
            self._planned = (start, end, plan(there, sizes, plan_rule(self._options)))
        return self._planned[2]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """In a task: the records of its spans."""
        return read_partition(self._options, partition)

    def commit(self, end: Any) -> None:
        """A batch is complete. `latestOffset` has heard of it before, if it could be committed."""
        self._progress.reach(offsets_of(end))

    def stop(self) -> None:
        """Nothing to do: Spark ends the process, and with it the connections."""

    def _sizes_of(self, places: Mapping[Place, int]) -> Mapping[Place, float]:
        return self._sizes.per_offset(cluster_of(self._options.connection), places.keys())

    def _ends(self, begin: Mapping[Place, int], heads: Mapping[Place, int]) -> dict[Place, int]:
        """How far there is something to read; what is lost is reported before it is journaled."""
        self._check_subscribed(begin)
        gone = [place for place in begin if place not in heads and self._covers(place)]
        if gone:
            self._losses.deleted(gone)
        elif self._heads.missing is not None and self._options.fail_on_data_loss:
            raise self._heads.missing
        end = dict(heads)
        behind = {place: begin[place] for place in end if end[place] < begin.get(place, 0)}
        if behind:
            cluster = cluster_of(self._options.connection)
            for place, mark in high_watermarks(cluster, behind, self._options).items():
                if mark < behind[place]:
                    self._losses.went_back(place, behind[place], mark)
                else:
                    # Read before, uncommitted: there is nothing committed beyond it yet.
                    end[place] = behind[place]
        return self._first(begin, end)

    def _first(self, begin: Mapping[Place, int], end: dict[Place, int]) -> dict[Place, int]:
        """Nothing of a partition that begins at its end goes into the first batch.

        Spark journals where batches end, not where the first one begins: after a crash in it, the
        end of the log would be looked up anew, and all that came meanwhile would be skipped. An
        empty first batch puts the beginning into the journal. (The connector writes a file into
        the checkpoint for that; a Python source is not told where that is.)
        """
        if self._initial is not None and not self._initial_read:
            self._initial_read = True
            if begin == self._initial.offsets:
                end |= {place: begin[place] for place in self._initial.at_end if place in end}
        return end

    def _check_subscribed(self, offsets: Mapping[Place, int]) -> None:
        strange = [place for place in offsets if not self._covers(place)]
        if strange:
            self._losses.not_subscribed(strange)

    def _covers(self, place: Place) -> bool:
        return self._options.subscription.covers(place)

    def _spans(self, start: dict[Place, int], end: dict[Place, int]) -> list[Span]:
        self._check_subscribed(start | end)
        gone = [place for place in start if place not in end and self._covers(place)]
        # Of the first batch once more, it may be the start that knows more: see `_is_first`.
        if gone and not self._is_first(start):
            self._losses.deleted(gone)
        fresh = [place for place in end if place not in start and self._covers(place)]
        spans = [Span(place, 0, end[place]) for place in fresh]
        for place, last in end.items():
            if place not in start or not self._covers(place):
                continue
            if last >= start[place]:
                spans.append(Span(place, start[place], last))
            elif not self._began_at_end(place, start):
                self._losses.went_back(place, start[place], last)
        return spans

    def _is_first(self, start: Mapping[Place, int]) -> bool:
        """Whether this is the first batch, perhaps once more, after a crash in it.

        Its end is the journal's then, but its start was looked up anew: partitions that have come
        meanwhile are in it, and belong to the next batch.
        """
        return self._initial is not None and self._initial.offsets == start

    def _began_at_end(self, place: Place, start: Mapping[Place, int]) -> bool:
        """Whether this is the first batch once more (see `_first`), where the end has moved on."""
        if self._initial is None or not self._is_first(start):
            return False
        # Of a time to start at, no record may have been there then, and one may be there now.
        by_time = isinstance(self._options.start, AtTime | AtTimes)
        return place in self._initial.at_end or (by_time and self._options.late_start)


def plan_rule(options: SourceOptions) -> PlanRule:
    """What the options say of tasks."""
    return PlanRule(
        task_bytes=options.task_bytes,
        tasks_min=options.tasks_min,
        task_offsets_max=options.task_offsets_max,
    )


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
    """What a task does. Spark makes up a partition of its own where there are none."""
    from barnabas.spark.source.reading import read_spans

    return read_spans(options, partition.spans if isinstance(partition, TaskSpans) else ())
