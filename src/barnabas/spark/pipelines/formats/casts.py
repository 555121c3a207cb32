"""Columns to other types: `cast: {amount: "DECIMAL(10,2)"}`."""

from typing import TYPE_CHECKING, Final

from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats.expressions import is_nested, misfit, quoted, try_cast
from barnabas.spark.pipelines.formats.names import INNER
from barnabas.spark.pipelines.formats.refusals import did_you_mean, refused
from barnabas.spark.pipelines.places import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_BEFORE: Final = f"{INNER}before_"


def cast_columns(
    rows: "DataFrame", source: TopicSource, columns: list[str]
) -> "tuple[DataFrame, list[Column]]":
    """The rows with the columns cast, and for each cast what is wrong where it gave nothing.

    The values from before stay beside the new ones, so that no value is cast twice.
    """
    from pyspark.sql import functions as f

    problems = []
    for given, text in source.cast.items():
        where = f"sources.{source.name}.cast"
        name = next((each for each in columns if each.lower() == given.lower()), None)
        if name is None:
            raise PipelineError(
                text.at, f"{where} has no column {given} to cast: {did_you_mean(given, columns)}"
            )
        kind = rows.schema[name].dataType
        with refused(text.at, f"{where}.{name}"):
            wanted = _type(text.value)
            if is_nested(wanted):
                raise PipelineError(
                    text.at,
                    f"{where}.{name}: a cast to {text.value} could leave nulls within: give the "
                    "nested type in schema, where each field of it must fit.",
                )
            before = f.col(quoted(_BEFORE + name))
            rows = rows.withColumn(_BEFORE + name, f.col(quoted(name)))
            rows = rows.withColumn(name, try_cast(before, wanted))
        lost = before.isNotNull() & f.col(quoted(name)).isNull()
        problems.append(f.when(lost, misfit(name, before, kind, text.value.strip())))
    return rows, problems


def _type(text: str) -> "DataType":
    from pyspark.sql.types import DataType

    return DataType.fromDDL(text)
