"""Streaming queries of a pipeline: one for each sink, one for each source with dead letters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines.definition import (
    OtherSink,
    Pipeline,
    Sink,
    TableSink,
    TopicSink,
    TopicSource,
)
from barnabas.spark.pipelines.operators import StreamingPlan
from barnabas.spark.pipelines.places import At
from barnabas.spark.pipelines.plans import analyzed
from barnabas.spark.pipelines.sources import kafka_options, path_in
from barnabas.spark.pipelines.written import check_newest, keep_journal
from barnabas.spark.sink.journal import fingerprint
from barnabas.spark.tables.snapshot import Batch
from barnabas.spark.to_topic import to_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TableWriter = Callable[["DataFrame", Batch], None]

_STREAMING_FORMATS: Final = frozenset(
    ("console", "csv", "json", "kafka", "memory", "noop", "orc", "parquet", "text", "xml")
)
"""Those that Spark streams into; the others are written batch by batch."""
DEAD_LETTERS: Final = "dead-letter-"


@dataclass(frozen=True, slots=True)
class Query:
    """One query, ready to be started."""

    name: str
    """The sink's, or `dead-letter-<source>`."""
    pipeline: Pipeline
    sink: Sink | None
    """None for dead letters."""
    source: TopicSource | None
    """Dead letters: whose."""
    frame: "DataFrame"
    """What is written: for topics as records, else as rows."""

    @property
    def group(self) -> str:
        """The consumer group that its progress is committed to."""
        return group_of(self.pipeline, self.name)

    @property
    def at(self) -> At | None:
        """Where in the file it comes from."""
        owner = self.sink or self.source
        return None if owner is None else owner.at

    @property
    def what(self) -> str:
        """How sentences call it."""
        if self.source is not None:
            return f"sources.{self.source.name}.dead_letter"
        return f"sinks.{self.name}"

    @property
    def owner(self) -> str:
        """As tables note whose they are."""
        return f"pipeline {self.pipeline.name}, sink {self.name}"

    @property
    def output_mode(self) -> str:
        """Spark's: an upsert takes what changes, if rows are aggregated at all."""
        if self.sink is None:
            return "append"
        if self.sink.mode != "upsert":
            return self.sink.mode
        aggregates = any(op["kind"] == "aggregation" for op in self.plan().operators())
        return "update" if aggregates else "append"

    def sink_id(self, generation: int) -> str:
        """Who writes; with another generation it is somebody else."""
        return f"{self.pipeline.name}.{self.name}.{generation}"

    def plan(self) -> StreamingPlan:
        """What Spark made of it."""
        return StreamingPlan(analyzed(self.frame), self.pipeline.sources)

    def start(
        self, checkpoint: str, generation: int, once: bool, trigger: str | None
    ) -> "StreamingQuery":
        """Begin, or go on where the checkpoint says. `once` ends with what is there by now."""
        writer = (
            self._writer(checkpoint, generation).queryName(self.name).outputMode(self.output_mode)
        )
        writer = writer.option("checkpointLocation", checkpoint)
        if once:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        return writer.start()

    def _writer(self, checkpoint: str, generation: int) -> "DataStreamWriter":
        if isinstance(self.sink, TableSink):
            keeps_state = bool(self.plan().operators())
            write = _table_writer(self.pipeline, self.sink, self.owner, keeps_state=keeps_state)

            def keep_and_write(frame: "DataFrame", number: int) -> None:
                keep_journal(checkpoint, number)
                known = fingerprint(checkpoint, number)
                write(frame, Batch(self.sink_id(generation), number, known))

            return self.frame.writeStream.foreachBatch(keep_and_write)
        if isinstance(self.sink, OtherSink):
            return _other_writer(self.frame, self.pipeline, self.sink)
        return self._topic_writer(checkpoint, generation)

    def _topic_writer(self, checkpoint: str, generation: int) -> "DataStreamWriter":
        options = self.topic_options(generation)
        tasks = self.frame.sparkSession.sparkContext.defaultParallelism
        if self.output_mode != "append":
            # A Python sink gets no updates from Spark, which are rows like others to a topic.
            def write(batch: "DataFrame", number: int) -> None:
                rows = to_topic(batch, options=options, tasks=tasks)
                writer = rows.write.format("barnabas").mode("append").options(**options)
                if "sinkId" in options:
                    keep_journal(checkpoint, number)
                    # By its offsets there the sink tells this batch from another of its number.
                    writer = writer.options(batchId=number, checkpointLocation=checkpoint)
                writer.save()

            return self.frame.writeStream.foreachBatch(write)
        group = self._source_group()
        if group is not None and "sinkId" in options:
            options["sourceGroup"] = group
        rows = self.frame
        if "sinkId" in options:
            rows = to_topic(rows, options=options, tasks=tasks)
        return rows.writeStream.format("barnabas").options(**options)

    def topic_options(self, generation: int) -> dict[str, str]:
        """Of the sink `barnabas`; for queries that write to a topic."""
        sink, source = self.sink, self.source
        if isinstance(sink, TopicSink):
            topic, delivery, own = sink.topic.value, sink.delivery, dict(sink.kafka)
        else:
            if source is None:
                raise BrokenInvariantError("source is there by now")
            if source.dead_letter is None:
                raise BrokenInvariantError("source.dead_letter is there by now")
            topic, delivery, own = source.dead_letter.value, "exactly-once", _connecting(source)
        options = kafka_options(self.pipeline, own) | {"topic": topic, "delivery": delivery}
        if delivery == "exactly-once":
            options["sinkId"] = self.sink_id(generation)
        return options

    def _source_group(self) -> str | None:
        """The group, if its offsets can be committed with the rows: of one stream of topics."""
        if isinstance(self.sink, TopicSink):
            streams = self.plan().streams()
            source = self.pipeline.sources.get(streams[0]) if len(streams) == 1 else None
            return self.group if isinstance(source, TopicSource) else None
        return self.group


def group_of(pipeline: Pipeline, query: str) -> str:
    """The consumer group of a query's sources."""
    return f"{pipeline.name}.{query}"


def _connecting(source: TopicSource) -> dict[str, str]:
    """Dead letters go to the cluster that they came from."""
    readers = ("fetch.max.bytes", "isolation.level", "group.id")
    return {key: value for key, value in source.kafka.items() if key not in readers}


def _table_writer(
    pipeline: Pipeline, sink: TableSink, owner: str, *, keeps_state: bool
) -> TableWriter:
    folder = path_in(pipeline, sink.path.value)
    by = sink.partition_by

    def write(frame: "DataFrame", batch: Batch) -> None:
        from barnabas.spark.tables import writing

        if sink.mode == "upsert":
            order = None if sink.order_by is None else sink.order_by.value
            gone = None if sink.delete_when is None else sink.delete_when.value
            wrote = writing.upsert(
                frame, folder, batch, key=sink.key, order_by=order, delete_when=gone,
                partition_by=by, owner=owner,
            )  # fmt: skip
        elif sink.mode == "complete":
            wrote = writing.overwrite(frame, folder, batch, partition_by=by, owner=owner)
        else:
            wrote = writing.append(frame, folder, batch, partition_by=by, owner=owner)
        if not wrote:
            check_newest(folder, batch)
            if keeps_state:
                # Operators before this one commit their state when somebody takes their rows.
                frame.write.format("noop").mode("overwrite").save()

    return write


def _other_writer(frame: "DataFrame", pipeline: Pipeline, sink: OtherSink) -> "DataStreamWriter":
    options = dict(sink.options)
    if sink.path is not None:
        options["path"] = path_in(pipeline, sink.path)
    if sink.format.lower() in _STREAMING_FORMATS:
        writer = frame.writeStream.format(sink.format).options(**options)
        return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer

    def write(batch: "DataFrame", _number: int) -> None:
        mode = "overwrite" if sink.mode == "complete" else "append"
        rows: Any = batch.write.format(sink.format).mode(mode).options(**options)
        (rows.partitionBy(*sink.partition_by) if sink.partition_by else rows).save()

    return frame.writeStream.foreachBatch(write)
