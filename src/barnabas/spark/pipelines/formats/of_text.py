"""Values as they are: bytes, or text."""

from typing import TYPE_CHECKING

from barnabas.spark.pipelines.formats.decoders import Decoder
from barnabas.spark.pipelines.formats.expressions import NO_TEXT
from barnabas.spark.pipelines.formats.names import DECODED, RAW_VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column


def raw_decoder() -> Decoder:
    """Any bytes will do."""
    from pyspark.sql import functions as f

    return Decoder(f.col(RAW_VALUE), {"value": f.col(DECODED)}, None)


def text_decoder() -> Decoder:
    """UTF-8, the whole of it."""
    from pyspark.sql import functions as f

    text = f.col(RAW_VALUE).cast("string")
    return Decoder(text, {"value": f.col(DECODED)}, no_text(f.col(DECODED)))


def no_text(text: "Column") -> "Column":
    """What is wrong with a text, if it is none: casting bytes to STRING does not look at them."""
    from pyspark.sql import functions as f

    return f.when(~f.is_valid_utf8(text), f.lit(NO_TEXT))
