"""The values of records as columns and back, and what becomes of those that do not fit."""

from barnabas.spark.pipelines.formats.dead_letters import PoisonRecordError
from barnabas.spark.pipelines.formats.decoding import Decoded, check_source, decode
from barnabas.spark.pipelines.formats.encoding import check_sink, encode
from barnabas.spark.pipelines.formats.names import METADATA, source_columns

__all__ = [
    "METADATA",
    "Decoded",
    "PoisonRecordError",
    "check_sink",
    "check_source",
    "decode",
    "encode",
    "source_columns",
]
