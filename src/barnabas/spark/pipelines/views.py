"""Sources and steps as temporary views of one session, so that SQL finds them by their names."""

from typing import TYPE_CHECKING, Any

from barnabas.spark.pipelines.definition import (
    DeduplicateStep,
    Pipeline,
    PythonStep,
    SqlStep,
    Step,
)
from barnabas.spark.pipelines.functions import load, returned_type
from barnabas.spark.pipelines.graph import graph_of
from barnabas.spark.pipelines.places import PipelineError, Text
from barnabas.spark.pipelines.problems import Problems, meant
from barnabas.spark.pipelines.sources import source_rows
from barnabas.spark.pipelines.spark_sentences import python_sentence, quiet, told_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Views:
    """What one query needs of a pipeline, in a session of its own."""

    def __init__(self, spark: "SparkSession", pipeline: Pipeline, group: str) -> None:
        self.session = spark.newSession()
        self._pipeline = pipeline
        self._group = group
        self._problems = Problems()
        for key, value in pipeline.settings.items():
            # What is Spark's as a whole was set when it started.
            if self.session.conf.isModifiable(key):
                self.session.conf.set(key, value)

    def frame(self, name: str) -> "DataFrame":
        """The rows of a source or step; PipelineErrors with all that is wrong on the way."""
        self._register_functions()
        graph = graph_of(self._pipeline)
        broken: set[str] = set()
        for each in graph.behind(name):
            # What needs something that failed would only fail for the same reason again.
            if broken.isdisjoint(graph.needs(each)) and self._add(each):
                continue
            broken.add(each)
        self._problems.raise_any(self._pipeline.file)
        return self._table(name)

    def _add(self, name: str) -> bool:
        """One more view; False when that failed, which is noted."""
        source = self._pipeline.sources.get(name)
        try:
            if source is not None:
                frame = source_rows(self.session, self._pipeline, source, self._group)
            else:
                frame = self._step(self._pipeline.steps[name])
        except PipelineError as problem:
            self._problems.take(problem)
            return False
        # Unlike with SQL the name is taken as it is here.
        frame.createOrReplaceTempView(name)
        return True

    def _table(self, name: str) -> "DataFrame":
        return self.session.table(f"`{name}`")

    def _step(self, step: Step) -> "DataFrame":
        if isinstance(step, SqlStep):
            names = (*self._pipeline.sources, *self._pipeline.steps)
            with told_at(step.sql, f"steps.{step.name}", names):
                return self.session.sql(step.sql.value)
        if isinstance(step, DeduplicateStep):
            return self._deduplicated(step)
        return self._of_python(step)

    def _deduplicated(self, step: DeduplicateStep) -> "DataFrame":
        what = f"steps.{step.name}"
        rows = self._table(step.input.value)
        with told_at(step.at, what):
            known = {column.lower() for column in rows.columns}
            for key in step.keys:
                if key.lower() not in known:
                    end = meant(key, rows.columns, f": choose of {', '.join(rows.columns)}.")
                    name = step.input.value
                    raise PipelineError(step.at, f"{what}: there is no column {key} in {name}{end}")
            marked = any("spark.watermarkDelayMs" in field.metadata for field in rows.schema)
            if rows.isStreaming and marked:
                return rows.dropDuplicatesWithinWatermark(list(step.keys))
            return rows.dropDuplicates(list(step.keys))

    def _of_python(self, step: PythonStep) -> "DataFrame":
        from pyspark.sql import DataFrame

        what = f"steps.{step.name}"
        function = load(step.python, self._pipeline.folder)
        inputs = [self._table(each.value) for each in step.inputs]
        try:
            with quiet():
                frame = function(*inputs)
        except Exception as error:
            sentence = python_sentence(error, self._pipeline.folder)
            raise PipelineError(step.at, f"{what}: {step.python.value} {sentence}") from error
        if not isinstance(frame, DataFrame):
            raise PipelineError(
                step.at,
                f"{what}: {step.python.value} returned {type(frame).__name__}, and a step is a "
                "DataFrame: return what its inputs have become.",
            )
        if step.schema is not None:
            _check_schema(frame, step.schema, f"{what}: {step.python.value}")
        return frame

    def _register_functions(self) -> None:
        from pyspark.sql import functions as f

        for function in self._pipeline.functions.values():
            what = f"functions.{function.name}"
            try:
                loaded = load(function.python, self._pipeline.folder)
                returns = returned_type(function, loaded)
                with told_at(function.returns or function.at, what):
                    udf = f.udf(loaded, returns, useArrow=True)
                    self.session.udf.register(function.name, udf)
            except PipelineError as problem:
                self._problems.take(problem)


def _check_schema(frame: "DataFrame", schema: Text, what: str) -> None:
    from pyspark.sql.types import StructType

    with told_at(schema, f"{what}: its schema"):
        wanted: Any = StructType.fromDDL(schema.value)
    returned = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    asked = {field.name: field.dataType.simpleString() for field in wanted.fields}
    for name, kind in asked.items():
        if name not in returned:
            raise PipelineError(
                schema.at,
                f"{what} returned no column {name}, which its schema has: it returned "
                f"{', '.join(returned)}.",
            )
        if returned[name] != kind:
            raise PipelineError(
                schema.at,
                f"{what} returned {name} as {returned[name]}, and its schema says {kind}: cast it, "
                "or change the schema.",
            )
    more = [name for name in returned if name not in asked]
    if more:
        raise PipelineError(
            schema.at,
            f"{what} returned the column {more[0]}, which its schema does not have: drop it, or "
            "add it to the schema.",
        )
