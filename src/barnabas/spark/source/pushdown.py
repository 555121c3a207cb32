"""The batch reader that is told the query's filters."""

from pyspark.sql.datasource import Filter

from barnabas.spark.source.batch import BarnabasBatchReader
from barnabas.spark.source.filters import Wanted


class PushdownBatchReader(BarnabasBatchReader):
    """Reads only where rows that pass the query's filters can be (`pushdown=true`).

    A class of its own, because Spark refuses every reader that can do this, filters or not,
    unless `spark.sql.python.filterPushdown.enabled` is set.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Remember what they rule out. Spark checks every row again: a range is all we know."""
        self._wanted = Wanted.of(filters)
        return filters
