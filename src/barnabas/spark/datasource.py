"""`format("barnabas")`: hands reading and writing to the rooms that know how.

Spark imports this in every Python process it starts, so each method imports what it needs.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from barnabas.spark.errors import SparkJobError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from barnabas.spark.source.options import SourceOptions


class BarnabasDataSource(DataSource):
    """Topics of a Barnabas, or of any other Kafka, as DataFrames; and DataFrames into topics."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return "barnabas"

    def schema(self) -> "StructType":
        """The official connector's, as far as `columns` and `includeHeaders` ask for it."""
        from barnabas.spark.source.options import BATCH_ONLY, parse, schema_of

        # Whether it is for a batch or for a stream is not told here. Only options of batches
        # are refused to streams, so one of them gives it away.
        streaming = not any(name in self.options for name in BATCH_ONLY)
        return schema_of(parse(self.options, streaming=streaming))

    def reader(self, schema: "StructType") -> DataSourceReader:
        """For `spark.read`."""
        options = self._source_options(schema, streaming=False)
        if options.pushdown:
            from barnabas.spark.source.pushdown import PushdownBatchReader

            return PushdownBatchReader(options)
        from barnabas.spark.source.batch import BarnabasBatchReader

        return BarnabasBatchReader(options)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802
        """For `spark.readStream`."""
        from barnabas.spark.source.stream import BarnabasStreamReader

        return BarnabasStreamReader(self._source_options(schema, streaming=True))

    def _source_options(self, schema: "StructType", *, streaming: bool) -> "SourceOptions":
        from barnabas.spark.source.options import parse, schema_of

        options = parse(self.options, streaming=streaming)
        if schema != schema_of(options):
            raise SparkJobError(
                "The columns of a topic are fixed, so schema(…) can not change them: leave it "
                "out, choose columns with the option columns, and take values apart with "
                "from_json or cast."
            )
        return options

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        if overwrite:
            raise SparkJobError(
                'A topic can not be overwritten: use mode("append"), and delete the topic before '
                "if its old records shall go."
            )
        from barnabas.spark.sink.options import EXACTLY_ONCE, parse
        from barnabas.spark.sink.rows import check_schema

        options = parse(self.options, streaming=False)
        shape = check_schema(schema, options)
        if options.delivery == EXACTLY_ONCE:
            from barnabas.spark.sink.exactly_once import ExactlyOnceWriter

            return ExactlyOnceWriter(options, shape)
        from barnabas.spark.sink.at_least_once import AtLeastOnceWriter

        return AtLeastOnceWriter(options, shape)

    def streamWriter(  # noqa: N802
        self,
        schema: "StructType",
        overwrite: bool,  # noqa: ARG002  # complete mode appends, too, as the official one does
    ) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        from barnabas.spark.sink.options import EXACTLY_ONCE, parse
        from barnabas.spark.sink.rows import check_schema

        options = parse(self.options, streaming=True)
        shape = check_schema(schema, options)
        if options.delivery == EXACTLY_ONCE:
            from barnabas.spark.sink.exactly_once import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options, shape)
        from barnabas.spark.sink.at_least_once import AtLeastOnceStreamWriter

        return AtLeastOnceStreamWriter(options, shape)
