"""The control: the same sink without its marker, which must not stay exact."""

from typing import Any

from pyspark.sql.types import StructType

from barnabas.spark.datasource import BarnabasDataSource
from barnabas.spark.sink.exactly_once import ExactlyOnceStreamWriter
from barnabas.spark.sink.marker import Marker


class ForgetfulWriter(ExactlyOnceStreamWriter):
    """Never believes that a batch is committed already."""

    def _is_committed(self, last: Marker | None, batch_id: int | None) -> bool:
        return False


class ForgetfulSource(BarnabasDataSource):
    """Writes in transactions too, but writes a batch again whenever Spark asks for it again."""

    @classmethod
    def name(cls) -> str:
        """What the control's query asks for."""
        return "forgetful"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        """The usual writer, with no memory."""
        usual: Any = super().streamWriter(schema, overwrite)
        return ForgetfulWriter(usual.options, usual.shape)
