"""Writers driven as Spark drives them: planned and pickled, run as tasks, committed by another."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.places import Place
from barnabas.spark.sink.exactly_once import (
    ExactlyOnceStreamWriter,
    ExactlyOnceWriter,
    TaskFailed,
    TaskWrote,
)
from barnabas.spark.sink.guard import describe_transaction
from barnabas.spark.sink.options import SinkOptions, parse
from barnabas.spark.sink.rows import RowShape
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.records.batch import BatchHeader, walk
from barnabas.wire.records.record import decode_batch

QUERY: Final = "11111111-query"
Rows = Sequence[Mapping[str, Any]]


ARROW: Final = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.string()),
        ("partition", pa.int32()),
        ("topic", pa.string()),
    ]
)


def shape_for(options: SinkOptions) -> RowShape:
    return RowShape(value=1, key=0, partition=2, topic=3 if options.topic is None else None)


class Query:
    """One streaming query's sink: a new driver is a new Query with the same options."""

    def __init__(self, servers: str, *, query_id: str = QUERY, **options: str) -> None:
        given = {"kafka.bootstrap.servers": servers, "delivery": "exactly-once", **options}
        self.options = parse(given, streaming=True)
        self.shape = shape_for(self.options)
        self.query_id = query_id

    def writer(self) -> ExactlyOnceStreamWriter:
        return ExactlyOnceStreamWriter(self.options, self.shape)

    def plan(self) -> bytes:
        """The planning process: Spark pickles the writer twice, in a function and by itself."""
        writer = self.writer()
        first = pickle.dumps(writer)
        again = pickle.loads(pickle.dumps(writer))
        assert again.begun == pickle.loads(first).begun
        return first

    def task(
        self, planned: bytes, batch_id: int, rows: Rows, *, attempt: int = 0, **properties: str
    ) -> TaskWrote:
        """One task that goes well; its message as it arrives at the driver."""
        message = self.message(planned, batch_id, iter([arrow(rows)]), attempt, **properties)
        if isinstance(message, TaskFailed):
            raise message.reason
        return message

    def message(
        self,
        planned: bytes,
        batch_id: int,
        rows: Iterator[pa.RecordBatch],
        attempt: int = 0,
        **properties: str,
    ) -> TaskWrote | TaskFailed:
        """What one task tells the driver, good or bad."""
        with task_context(attempt, batch_id, self.query_id, **properties):
            writer: ExactlyOnceStreamWriter = pickle.loads(planned)
            message = pickle.loads(pickle.dumps(writer.write(rows)))
        assert isinstance(message, TaskWrote | TaskFailed)
        return message

    def commit(self, messages: Sequence[TaskWrote | TaskFailed], batch_id: int) -> None:
        writer = self.writer()
        writer.commit(list(messages), batch_id)
        self._settle(writer.sink)

    def abort(self, messages: Sequence[TaskWrote | TaskFailed | None], batch_id: int) -> None:
        writer = self.writer()
        writer.abort(list(messages), batch_id)
        self._settle(writer.sink)

    def _settle(self, sink: str) -> None:
        """Once an end is decided, readers are told within a moment: wait for it."""
        cluster = cluster_of(self.options.connection)
        while describe_transaction(cluster, sink).state.startswith("Prepare"):
            pass

    def run(self, batch_id: int, *tasks: Rows) -> list[TaskWrote]:
        """A whole micro-batch; what a failing commit makes Spark do is done too."""
        planned = self.plan()
        messages = [self.task(planned, batch_id, rows) for rows in tasks]
        try:
            self.commit(messages, batch_id)
        except BaseException:
            self.abort(messages, batch_id)
            raise
        return messages


def batch_writer(servers: str, **options: str) -> ExactlyOnceWriter:
    """A batch write, as it reaches tasks and the commit process: begun, and unpickled."""
    given = {"kafka.bootstrap.servers": servers, "delivery": "exactly-once", **options}
    parsed = parse(given, streaming=False)
    writer = ExactlyOnceWriter(parsed, shape_for(parsed))
    loaded = pickle.loads(pickle.dumps(writer))
    assert isinstance(loaded, ExactlyOnceWriter)
    return loaded


@contextmanager
def task_context(
    attempt: int = 0, batch_id: int | None = None, query_id: str = "", **properties: str
) -> Iterator[None]:
    """As a Python worker sets it up."""
    known = {key.replace("_", "."): value for key, value in properties.items()}
    if batch_id is not None:
        known["streaming.sql.batchId"] = str(batch_id)
    if query_id:
        known["sql.streaming.queryId"] = query_id
    before = TaskContext.get()
    TaskContext._setTaskContext(None)
    TaskContext(attemptNumber=attempt, partitionId=0, taskAttemptId=0, localProperties=known)
    try:
        yield
    finally:
        TaskContext._setTaskContext(before)


def arrow(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=ARROW)


def rows_for(partition: int, *values: str, topic: str | None = None) -> list[dict[str, Any]]:
    return [
        {"key": None, "value": value, "partition": partition, "topic": topic} for value in values
    ]


def fetch(
    cluster: Cluster, place: Place, *, committed: bool
) -> list[tuple[BatchHeader, memoryview]]:
    """The batches of a partition from its beginning on."""
    request = FetchRequest(
        -1, -1, 0, 0, 1 << 26, int(committed), 0, -1,
        [FetchTopic(place.topic, None, [FetchPartition(place.partition, -1, 0, -1, -1, 1 << 26)])],
        [],
    )  # fmt: skip
    response = cluster.broker(cluster.leaders([place])[place]).link.fetch(12, request)
    result = response.topics[0].partitions[0]
    aborted = sorted(result.aborted or (), key=lambda each: each[1])
    found, dropped = [], set()
    data = memoryview(result.records or b"")
    for at, header in walk(data):
        while aborted and aborted[0][1] <= header.base_offset:
            dropped.add(aborted.pop(0)[0])
        if header.is_control:
            dropped.discard(header.producer_id)
        elif not (committed and header.producer_id in dropped):
            found.append((header, data[at : at + header.size]))
    return found


def values(cluster: Cluster, *places: Place, committed: bool = True) -> list[str]:
    """Every value that readers of committed records see, in order of places and offsets."""
    return [
        bytes(record.value or b"").decode()
        for place in places
        for _, batch in fetch(cluster, place, committed=committed)
        for record in decode_batch(batch)
    ]
