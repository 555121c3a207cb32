"""`RowWriter`: Arrow batches in, record batches out, for one task."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.sink.batches import Encoder
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.outcomes import WrittenRows
from barnabas.spark.sink.partitioning import TopicRouter
from barnabas.spark.sink.producing import ProducerSession
from barnabas.spark.sink.rows import Columns, RowShape, narrow, timestamps_ms

if TYPE_CHECKING:
    import pyarrow as pa

_WINDOW_BYTES: Final = 16 << 20
"""What is gathered before it is cut into batches: so much that those of a few partitions are full,
and so little that sending does not wait for long."""


class RowWriter:
    """Writes the rows of one task through a session: both kinds of delivery do it like this."""

    def __init__(
        self,
        options: SinkOptions,
        shape: RowShape,
        session: ProducerSession,
        *,
        window_bytes: int = _WINDOW_BYTES,
    ) -> None:
        self._options = options
        self._shape, self._needed = narrow(shape)
        self._session = session
        self._window_bytes = window_bytes
        self._routers: dict[str, TopicRouter] = {}

    def write(self, batches: "Iterable[pa.RecordBatch]") -> dict[Place, WrittenRows]:
        """All of them, acknowledged when this returns."""
        try:
            for window in self._windows(batches):
                for topic, rows in self._by_topic(window):
                    self._write(self._routers[topic], rows)
            self._session.flush()
        except BaseException:
            # Also when Spark ends the task: the next one uses the same links.
            self._session.abandon()
            raise
        return self._session.take_written()

    def _windows(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Small batches together, as long as they stay within the window."""
        gathered: list[Any] = []
        size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            if self._needed != list(range(batch.num_columns)):
                batch = batch.select(self._needed)  # noqa: PLW2901
            more = batch.nbytes
            if gathered and size + more > self._window_bytes:
                yield _together(gathered)
                gathered, size = [], 0
            gathered.append(batch)
            size += more
        if gathered:
            yield _together(gathered)

    def _by_topic(self, window: "pa.RecordBatch") -> "Iterator[tuple[str, pa.RecordBatch]]":
        if self._shape.topic is None:
            topic = self._options.topic or ""
            self._meet([topic])
            yield topic, window
            return
        column = window.column(self._shape.topic)
        if column.null_count:
            raise SparkJobError(
                "The column topic is null in a row: fill it, or set the option topic for all rows."
            )
        encoded = column.dictionary_encode()
        topics: list[str] = encoded.dictionary.to_pylist()
        self._meet(topics)
        if len(topics) == 1:
            yield topics[0], window
            return
        yield from self._split(window, topics, encoded.indices)

    def _split(
        self, window: "pa.RecordBatch", topics: list[str], codes: "pa.Array"
    ) -> "Iterator[tuple[str, pa.RecordBatch]]":
        import numpy as np

        numbers = codes.to_numpy(zero_copy_only=False)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(topics))).tolist()
        for topic, start, end in zip(topics, [0, *ends], ends, strict=False):
            yield topic, window.take(order[start:end])

    def _meet(self, topics: list[str]) -> None:
        new = [topic for topic in topics if topic not in self._routers]
        if new:
            counts = self._session.partition_counts(new)
            for topic in new:
                partitioner = self._options.partitioner
                self._routers[topic] = TopicRouter(topic, counts[topic], partitioner)

    def _write(self, router: TopicRouter, rows: "pa.RecordBatch") -> None:
        shape = self._shape
        columns = Columns(shape, rows)
        now_ms = int(time.time() * 1000)
        times = None
        if shape.timestamp is not None:
            times = timestamps_ms(rows.column(shape.timestamp), now_ms)
        wanted = None if shape.partition is None else rows.column(shape.partition)
        encoder = Encoder(self._options, columns, now_ms, times)
        groups = list(router.groups(columns.rows, columns.keys, wanted))
        self._session.announce([group.place for group in groups])
        for group in groups:
            first, left = group.first, group.count
            while left:
                limit = self._session.batch_bytes(router.topic)
                section = encoder.section(group.place, group.order, first, left, limit)
                self._session.send(group.place, section)
                first += section.count
                left -= section.count


def _together(batches: "list[pa.RecordBatch]") -> "pa.RecordBatch":
    if len(batches) == 1:
        return batches[0]
    import pyarrow as pa

    return pa.concat_batches(batches)
