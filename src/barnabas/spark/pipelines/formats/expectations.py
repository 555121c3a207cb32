"""Conditions that rows must meet: `expect: [amount >= 0]`."""

from typing import TYPE_CHECKING, Final

from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats.refusals import refused
from barnabas.spark.pipelines.places import PipelineError, Text
from barnabas.spark.pipelines.plans import analyzed, by_chance

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BY_TIME: Final = frozenset(
    ("CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now")
)


def unmet(rows: "DataFrame", source: TopicSource) -> "list[Column]":
    """For each condition what is wrong where it is false or null, or can not be computed."""
    from pyspark.sql import functions as f

    problems = []
    for condition in source.expect:
        with refused(condition.at, f"sources.{source.name}.expect: {condition.value}"):
            met = _met(condition.value)
            # Spark looks at it here, where the line is known.
            checked = rows.where(f.expr(condition.value))
            checked.select(met)
        if source.dead_letter is not None:
            _check_steady(checked, condition, source)
        text = " ".join(condition.value.split())
        problems.append(f.when(~met, f.lit(f"does not meet: {text}")))
    return problems


def _check_steady(checked: "DataFrame", condition: Text, source: TopicSource) -> None:
    """PipelineError for what comes out otherwise at another time.

    Rows and dead letters are two queries, and each has batches of its own: a record that does not
    meet a condition yet, and later does, could be neither.
    """
    found = analyzed(checked).one("condition")
    parts = () if found is None else found.walk()
    unsteady = [part.kind for part in parts if part.kind in _BY_TIME or by_chance(part)]
    if unsteady:
        raise PipelineError(
            condition.at,
            f"sources.{source.name}.expect: {condition.value}: what is right must not depend on "
            f"when it is looked at ({unsteady[-1]}), or a record could be neither a row nor a dead "
            "letter: compare with _timestamp, or leave rows out with WHERE in a step.",
        )


def _met(condition: str) -> "Column":
    """Whether a condition is true; false also where computing it raises.

    With ANSI on, as it is, `1 / amount > 0` raises where amount is 0, and one record would end the
    query at each start. With ANSI off it would be null, but integers would overflow in silence and
    such a row pass. So the condition is computed as it is, within the one expression of Spark that
    takes what its children raise for null; of the functions that have it inside try_to_binary is
    the plainest. A test holds it to that.

    The CASE around it keeps Spark from taking a part out that several conditions share: outside it
    would raise after all. Nothing that is only perhaps computed is taken out.
    """
    from pyspark.sql import functions as f

    # On lines of its own, for a condition may end with a comment.
    guarded = f"CASE WHEN spark_partition_id() < 0 THEN '00' WHEN (\n{condition}\n) THEN '01' END"
    return f.expr(f"try_to_binary({guarded}, 'hex')").eqNullSafe(f.expr("X'01'"))
