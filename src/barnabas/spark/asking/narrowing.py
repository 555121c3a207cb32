"""Which columns a query needs of each of its relations.

Spark does not tell a Python source which columns it wants, and would have all of them fetched,
decoded and carried over. So the query is first planned over stand-ins that hold nothing, and what
Spark's optimizer leaves of their columns is what the source is asked for.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.archives.layout import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARKED: Final = re.compile(r"barnabas:(\d+):(\w+)")
_NAMES_WHAT_IT_NEEDS: Final = frozenset({"Project", "Filter", "Aggregate"})


def stand_in(spark: "SparkSession", number: int) -> "DataFrame":
    """A record's columns without any record; Spark can not know that there is none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    fields = spark_schema().fields
    # The mark is the column's name at the very source: any name above it Spark may do away with.
    marked = {f"barnabas:{number}:{field.name}": field for field in fields}
    schema = StructType([StructField(mark, field.dataType) for mark, field in marked.items()])
    nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), schema)
    return nothing.select(*(f.col(f"`{mark}`").alias(marked[mark].name) for mark in marked))


def needed_columns(frame: "DataFrame", count: int) -> list[set[str]]:
    """Of each of so many stand-ins, what a query over them looks at."""
    query: Any = frame
    plan = query._jdf.queryExecution().optimizedPlan()
    needed: list[set[str]] = [set() for _ in range(count)]
    for text in (_text(plan.output()), *_looked_at(plan)):
        for number, name in _MARKED.findall(text):
            needed[int(number)].add(name)
    return needed


def _looked_at(plan: Any) -> Iterator[str]:
    children = _items(plan.children())
    if children:
        yield _text(plan.references().toSeq())
    names_it = str(plan.getClass().getSimpleName()) in _NAMES_WHAT_IT_NEEDS
    for child in children:
        if not names_it and not child.children().size():
            # By position perhaps, as a union does: take all of it.
            yield _text(child.output())
        yield from _looked_at(child)
    for each in _items(plan.subqueries()):
        yield _text(each.output())
        yield from _looked_at(each)


def _items(sequence: Any) -> Sequence[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _text(attributes: Any) -> str:
    return str(attributes.mkString(" "))
