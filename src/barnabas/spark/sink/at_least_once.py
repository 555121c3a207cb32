"""At least once: every task writes for itself, and what a task repeats is there twice."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.transactions import init_producer_id
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.producing import ProducerSession
from barnabas.spark.sink.rows import RowShape
from barnabas.spark.sink.writing import RowWriter

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task has written."""

    rows: int
    bytes: int
    partitions: int


class _AtLeastOnce:
    """The part of it that batches and streams share; it travels to the tasks."""

    def __init__(self, options: SinkOptions, shape: RowShape) -> None:
        self.options: Final = options
        self.shape: Final = shape

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskWritten:
        """The rows of one task, acknowledged when this returns."""
        session = _take_session(self.options)
        written = RowWriter(self.options, self.shape, session).write(iterator)
        _keep_session(session)
        return TaskWritten(
            rows=sum(each.rows for each in written.values()),
            bytes=sum(each.bytes for each in written.values()),
            partitions=len(written),
        )


class AtLeastOnceWriter(_AtLeastOnce, DataSourceArrowWriter):
    """`df.write.format("barnabas")`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is left to do: the brokers have the rows."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What tasks have written stays."""


class AtLeastOnceStreamWriter(_AtLeastOnce, DataSourceStreamArrowWriter):
    """`df.writeStream.format("barnabas")`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: the brokers have the rows."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What tasks have written stays."""


_sessions: dict[tuple[int, SinkOptions], ProducerSession] = {}
"""Kept by a process for the tasks to come: a new producer id costs two round trips."""


def _take_session(options: SinkOptions) -> ProducerSession:
    """Taken out: it only comes back when its task has gone well."""
    options = _of_sessions(options)
    session = _sessions.pop((os.getpid(), options), None)
    if session is not None:
        return session
    cluster = cluster_of(options.connection)
    producer = init_producer_id(cluster, None, 0) if options.idempotent else None
    return ProducerSession(cluster, options, producer)


def _keep_session(session: ProducerSession) -> None:
    session.duplicates.clear()
    _sessions[os.getpid(), session.options] = session


def _of_sessions(options: SinkOptions) -> SinkOptions:
    """Without what differs from one query, or one batch, to the next."""
    return replace(
        options,
        topic=None,
        partitioner="murmur2",
        include_timestamp=False,
        sink_id=None,
        source_group=None,
        batch_id=None,
        checkpoint=None,
    )
