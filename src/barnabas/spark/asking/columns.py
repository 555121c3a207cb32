"""What a topic looks like in SQL: its records as columns that a person wants to see.

Each is computed from the record's bytes only where a query asks for it.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from barnabas.spark.archives.layout import spark_schema
from barnabas.spark.asking.troubles import AskingError
from barnabas.spark.deaths import sentence_of, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_SHOWN: Final = {
    "partition": ("`partition`", ""),
    "offset": ("`offset`", ""),
    "timestamp": ("`timestamp`", "of the record"),
    "key": (
        "try_validate_utf8(CAST(`key` AS STRING))",
        "text; NULL also where it is no UTF-8: see key_bytes",
    ),
    "value": (
        "try_validate_utf8(CAST(`value` AS STRING))",
        "text; NULL also where it is no UTF-8: see value_bytes",
    ),
    "doc": (
        "try_parse_json(try_validate_utf8(CAST(`value` AS STRING)))",
        "the value's JSON, NULL without: doc:customer.name::string",
    ),
    "headers": ("`headers`", ""),
    "key_bytes": ("`key`", ""),
    "value_bytes": ("`value`", ""),
    "timestamp_type": (
        "CASE `timestampType` WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' END",
        "who set the timestamp: CreateTime or LogAppendTime",
    ),
}
"""By name: how it is made of what the source gives, and what DESCRIBE says of it."""
_FIELDS: Final = "_fields"


def raw_columns() -> tuple[str, ...]:
    """What the source and archives give of each record."""
    return tuple(spark_schema().names)


def parse_fields(relation: str, ddl: str) -> "StructType":
    """`id BIGINT, amount DOUBLE`; AskingError for what Spark does not take for columns."""
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(ddl)
    except spark_errors() as error:
        raise AskingError(
            f"--schema {relation}={ddl}: write it as 'id BIGINT, amount DOUBLE' "
            f"({sentence_of(error).rstrip('.')})."
        ) from error
    if not isinstance(found, StructType) or not found.names:
        raise AskingError(f"--schema {relation}={ddl}: write it as 'id BIGINT, amount DOUBLE'.")
    return found


def dressed(raw: "DataFrame", fields: "StructType | None" = None) -> "DataFrame":
    """A record's columns in front of a person; the `fields` of its JSON value before them.

    Of `raw`, columns that nobody asks for may be missing. A field that has the name of a record's
    column takes it over, and that is called record_… then.
    """
    from pyspark.sql import functions as f

    there = _completed(raw)
    taken: Collection[str] = [name.lower() for name in fields.names] if fields else ()
    shown = [
        f.expr(how).alias(f"record_{name}" if name in taken else name, metadata=_comment(what))
        for name, (how, what) in _SHOWN.items()
    ]
    if fields is None:
        return there.select(*shown)
    text = f.expr(_SHOWN["value"][0])
    parsed = there.withColumn(_FIELDS, f.from_json(text, fields))
    named = [
        parsed[_FIELDS].getField(name).alias(name, metadata=_comment("of the value's JSON"))
        for name in fields.names
    ]
    return parsed.select(*named, *shown)


def _completed(raw: "DataFrame") -> "DataFrame":
    """With every column of a record, NULL where it is missing: nobody looks at it."""
    from pyspark.sql import functions as f

    return raw.select(
        *(
            f.col(field.name)
            if field.name in raw.columns
            else f.lit(None).cast(field.dataType).alias(field.name)
            for field in spark_schema().fields
        )
    )


def _comment(text: str) -> dict[str, str]:
    return {"comment": text} if text else {}
