"""The batch reader: one range of offsets for each partition, decided once, on the driver."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place, Span
from barnabas.spark.source.continuity import spans_there
from barnabas.spark.source.filters import Wanted
from barnabas.spark.source.options import SourceOptions
from barnabas.spark.source.planning import plan
from barnabas.spark.source.sizes import Sizes
from barnabas.spark.source.starting import Edge, resolve
from barnabas.spark.source.stream import plan_rule, read_partition

if TYPE_CHECKING:
    import pyarrow as pa


class BarnabasBatchReader(DataSourceReader):
    """What is written to the topics after planning belongs to another query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._wanted = Wanted()

    def partitions(self) -> list[InputPartition]:
        """What each task reads."""
        cluster = cluster_of(self._options.connection)
        spans = self._wanted.narrow(ranges(cluster, self._options), cluster)
        there = spans_there(cluster, spans, self._options)
        sizes = Sizes().per_offset(cluster, [span.place for span in there])
        return list(plan(there, sizes, plan_rule(self._options)))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """In a task: the records of its spans."""
        return read_partition(self._options, partition)


def ranges(cluster: Cluster, options: SourceOptions) -> list[Span]:
    """From where to where each partition is read."""
    places = options.subscription.places(cluster)
    start = resolve(
        Edge.START,
        options.start,
        places,
        cluster,
        committed=options.committed,
        late_start=options.late_start,
    ).offsets
    end = resolve(Edge.END, options.end, places, cluster, committed=options.committed).offsets
    backwards = {place: start[place] for place in places if start[place] > end[place]}
    if backwards:
        _check_only_uncommitted(cluster, backwards, end)
    return [Span(place, start[place], max(start[place], end[place])) for place in places]


def _check_only_uncommitted(
    cluster: Cluster, backwards: dict[Place, int], end: dict[Place, int]
) -> None:
    """To begin where transactions are open still is no mistake: there is nothing to read yet."""
    stable = cluster.latest(backwards.keys(), committed=True)
    marks = cluster.latest(backwards.keys(), committed=False)
    for place, first in backwards.items():
        if end[place] < stable[place] or first > marks[place]:
            raise SparkJobError(
                f"{place} is to be read from offset {first} to {end[place]}, which is before that: "
                f"its log ends at {marks[place]}. Move the start back, or the end on."
            )
