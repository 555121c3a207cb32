"""A task's spans in, Arrow record batches out: what both readers call in `read()`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.model.errors import DecodeError
from barnabas.model.limits import DECOMPRESSED_BYTES_MAX
from barnabas.spark.places import Span
from barnabas.spark.source.arrow import Run, record_batch
from barnabas.spark.source.committed import AbortedTransactions
from barnabas.spark.source.losses import Losses
from barnabas.spark.source.portions import Batch, Portion
from barnabas.wire.records.batch import HEADER_BYTES, LOG_APPEND_TIME, NO_TIMESTAMP
from barnabas.wire.records.columns import ColumnDecoder
from barnabas.wire.records.compression import Expander

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.spark.source.options import SourceOptions

ROWS_MAX: Final = 16_384
"""Rows of a record batch, give or take a Kafka batch: more gain nothing in Spark, and what stays in
a core's cache is decoded faster."""

BYTES_MAX: Final = 8 * 1024 * 1024
"""Keys, values and headers of a record batch, likewise: Spark holds a few of them at a time."""

_CREATE_TIME: Final = 0
_APPEND_TIME: Final = 1


def read_spans(options: "SourceOptions", spans: Sequence[Span]) -> Iterator["pa.RecordBatch"]:
    """Every record of the spans that is there, once, in the order of offsets of each partition.

    Raises SparkJobError, which is one sentence about what to do; what was yielded by then is not
    yielded by anybody else, so Spark's retry of the task reads all of it anew.
    """
    from barnabas.spark.cluster.cluster import cluster_of
    from barnabas.spark.source.fetching import Fetcher

    gathering = Gathering(options)
    for portion in Fetcher(cluster_of(options.connection), options, spans).portions():
        yield from gathering.add(portion)
    yield from gathering.rest()


class Gathering:
    """Decodes batches into columns until there are enough rows for a record batch.

    Rows of several partitions may share one: eight record batches of ten rows cost Spark more
    than one of eighty.
    """

    def __init__(self, options: "SourceOptions") -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        from barnabas.spark.source.options import schema_of

        self._schema = to_arrow_schema(schema_of(options), timezone="UTC")
        names = self._schema.names
        self._decoder = ColumnDecoder(
            keys="key" in names, values="value" in names, headers="headers" in names
        )
        self._expander = Expander(DECOMPRESSED_BYTES_MAX)
        self._losses = Losses(fail=options.fail_on_data_loss)
        self._runs: list[Run] = []

    def add(self, portion: Portion) -> Iterator["pa.RecordBatch"]:
        """Gather an answer's rows; the record batches that are full by then."""
        aborted = AbortedTransactions(portion.aborted)
        for batch in portion.batches:
            try:
                if batch.header.is_control:
                    aborted.end_at(portion.data, batch.position, batch.header)
                elif not aborted.hides(batch.header):
                    self._add(portion, batch)
            except DecodeError as problem:
                header = batch.header
                after = min(header.last_offset + 1, portion.end)
                self._losses.damaged(portion.place, batch.first, after, str(problem))
            if self._decoder.rows >= ROWS_MAX or self._decoder.size >= BYTES_MAX:
                yield self._take()

    def rest(self) -> Iterator["pa.RecordBatch"]:
        """What is left at the end."""
        if self._decoder.rows:
            yield self._take()

    def _add(self, portion: Portion, batch: Batch) -> None:
        position, header, first = batch
        records = portion.data[position + HEADER_BYTES : position + header.size]
        if not header.count and not records:
            # Emptied by compaction: it may keep its codec, but there is nothing to expand.
            return
        data = self._expander.expand(header.codec, records)
        by_broker = bool(header.attributes & LOG_APPEND_TIME)
        # Nothing behind the batch's own end: those offsets belong to the batches that follow.
        end = min(portion.end, header.last_offset + 1)
        rows = self._decoder.add(
            data,
            header.count,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if by_broker else NO_TIMESTAMP,
            first,
            end,
        )
        if rows:
            kind = _APPEND_TIME if by_broker else _CREATE_TIME
            self._runs.append(Run(portion.place, kind, rows))
        if rows != header.count and first <= header.base_offset and header.last_offset < end:
            raise DecodeError("a record lies outside the offsets of its batch")

    def _take(self) -> "pa.RecordBatch":
        runs, self._runs = self._runs, []
        return record_batch(self._schema, self._decoder.take(), runs)
