"""The `steps` and `functions` of a pipeline file."""

from typing import Final

from barnabas.spark.pipelines import values
from barnabas.spark.pipelines.definition import (
    DeduplicateStep,
    Function,
    PythonStep,
    SqlStep,
    Step,
)
from barnabas.spark.pipelines.fields import Fields, checked, fields_of
from barnabas.spark.pipelines.places import At, Text
from barnabas.spark.pipelines.problems import Problems, listed, shown
from barnabas.spark.pipelines.reading_schemas import read_schema
from barnabas.spark.pipelines.yaml_nodes import Node, Scalar

_KEYS: Final = {
    "sql": ("sql",),
    "python": ("python", "inputs", "schema", "schema_file"),
    "deduplicate": ("deduplicate", "by"),
}


def read_step(name: str, at: At, node: Node, folder: str, problems: Problems) -> Step | None:
    """One step; None after what is wrong with it was noted."""
    label = f"steps.{shown(name)}"
    if isinstance(node, Scalar) and not node.nothing and node.value.strip():
        return SqlStep(name, at, Text(node.value, node.at))
    fields = fields_of(label, at, node, problems)
    if fields is None:
        return None
    kinds = [kind for kind in _KEYS if kind in fields.keys]
    if len(kinds) > 1:
        problems.add(at, f"{label} has {listed(kinds)}: take one of them.")
        return None
    found = len(problems)
    if not kinds:
        fields.refuse_others([key for keys in _KEYS.values() for key in keys])
        if len(problems) == found:
            fields.needs("sql, python or deduplicate")
        return None
    kind = kinds[0]
    elsewhere = {
        key: f"steps with {other}"
        for other, keys in _KEYS.items()
        for key in keys
        if key not in _KEYS[kind]
    }
    fields.refuse_others(_KEYS[kind], elsewhere)
    step = _step(kind, name, fields, folder)
    return step if len(problems) == found else None


def _step(kind: str, name: str, fields: Fields, folder: str) -> Step | None:
    if kind == "sql":
        sql = fields.text("sql")
        return None if sql is None else SqlStep(name, fields.at, sql)
    if kind == "python":
        python = checked(fields.text("python"), values.import_path, fields, "python")
        if fields.lacks("inputs"):
            fields.needs("inputs: the sources and steps that the function is given")
        inputs = fields.texts("inputs")
        schema = read_schema(fields, folder, avro=False)
        return None if python is None else PythonStep(name, fields.at, python, inputs, schema)
    input_ = fields.text("deduplicate")
    if fields.lacks("by"):
        fields.needs("by: the columns of which each combination comes once")
    keys = tuple(text.value for text in fields.texts("by"))
    return None if input_ is None else DeduplicateStep(name, fields.at, input_, keys)


def read_function(name: str, at: At, node: Node, problems: Problems) -> Function | None:
    """One function; None after what is wrong with it was noted."""
    label = f"functions.{shown(name)}"
    if isinstance(node, Scalar) and not node.nothing and not node.unset:
        objection = values.import_path(node.value)
        if objection is not None:
            problems.add(node.at, f"{label} {objection}")
            return None
        return Function(name, at, Text(node.value, node.at))
    fields = fields_of(label, at, node, problems)
    if fields is None:
        return None
    found = len(problems)
    fields.refuse_others(("python", "returns"))
    python = fields.needed("python", "module:function")
    python = checked(python, values.import_path, fields, "python")
    returns = checked(fields.text("returns"), values.sql, fields, "returns")
    if python is None or len(problems) > found:
        return None
    return Function(name, at, python, returns)
