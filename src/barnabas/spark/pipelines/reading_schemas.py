"""Schemas in a pipeline file: written there or in a file of their own, as SQL or as Avro's JSON."""

import json
import os
import re
from typing import Any, Final

from barnabas.spark.pipelines import values
from barnabas.spark.pipelines.fields import Fields, checked
from barnabas.spark.pipelines.places import At, PipelineError, Text
from barnabas.spark.pipelines.problems import shown
from barnabas.spark.pipelines.yaml_nodes import Entries, Items, Node, Scalar

SIZE_MAX: Final = 1 << 20

_COLUMN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_]\w*))\s*[\s:]\s*\S", re.ASCII)
_PIECE: Final = re.compile(r"`(?:[^`]|``)*+`|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|.", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?P<fraction>\.[0-9]{1,18})?")


def read_schema(fields: Fields, folder: str, *, avro: bool) -> Text | None:
    """What `schema` or `schema_file` says, checked as far as that goes without Spark."""
    if "schema" in fields.keys and "schema_file" in fields.keys:
        fields.wrong("schema_file", "and schema stand together: take one of them.")
        return None
    if "schema_file" in fields.keys:
        text = _from_file(fields, folder)
    elif avro and isinstance(node := fields.node("schema"), Entries):
        # JSON is YAML: who pastes a schema as it is has written keys and values.
        text = Text(json.dumps(_plain(node)), node.at)
    else:
        text = fields.text("schema")
    if text is None or (_check_avro(fields, text) if avro else _check_columns(fields, text)):
        return text
    return None


def columns(schema: Text, *, avro: bool) -> tuple[str, ...] | None:
    """The names of a schema's columns; None where only Spark can tell."""
    if not avro:
        return _sql_columns(schema.value)
    fields = json.loads(schema.value).get("fields")
    return tuple(field["name"] for field in fields)


def _from_file(fields: Fields, folder: str) -> Text | None:
    given = checked(fields.text("schema_file"), values.local_path, fields, "schema_file")
    if given is None:
        return None
    path = os.path.join(folder, given.value)
    try:
        with open(path, "rb") as file:
            data = file.read(SIZE_MAX + 1)
        if len(data) > SIZE_MAX:
            fields.wrong("schema_file", f"is larger than 1 MiB: {shown(given.value)}.")
            return None
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        fields.wrong("schema_file", f"is not a text in UTF-8: {shown(given.value)}.")
        return None
    except OSError as error:
        fields.wrong("schema_file", f"can not be read ({error.strerror}): {shown(given.value)}.")
        return None
    if not text.strip():
        fields.wrong("schema_file", f"is empty: {shown(given.value)}.")
        return None
    return Text(text, At(given.value, 1))


def _check_avro(fields: Fields, schema: Text) -> bool:
    path = fields.path("schema")
    try:
        parsed = json.loads(schema.value)
    except json.JSONDecodeError as error:
        problem = f"is not the JSON of an Avro schema ({error.msg})."
        fields.problems.take(PipelineError(schema.at.below(error.lineno - 1), f"{path} {problem}"))
        return False
    except RecursionError:
        parsed = None
    found = parsed.get("fields") if isinstance(parsed, dict) else None
    if (
        not isinstance(parsed, dict)
        or parsed.get("type") != "record"
        or not isinstance(found, list)
        or not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in found)
    ):
        fields.problems.add(
            schema.at, f'{path} wants an Avro record: {{"type": "record", "fields": […]}}.'
        )
        return False
    return True


def _check_columns(fields: Fields, schema: Text) -> bool:
    path = fields.path("schema")
    if values.sql(schema.value) is not None:
        fields.problems.add(schema.at, f"{path} {values.sql(schema.value)}")
        return False
    seen: set[str] = set()
    for name in _sql_columns(schema.value) or ():
        if name.lower() in seen:
            fields.problems.add(schema.at, f"{path} has the column {shown(name)} twice.")
            return False
        seen.add(name.lower())
    return True


def _sql_columns(schema: str) -> tuple[str, ...] | None:
    if "--" in schema or "/*" in schema:
        return None
    names = []
    for part in _split(schema):
        found = _COLUMN.match(part)
        if found is None:
            return None
        names.append(found[1].replace("``", "`") if found[1] is not None else found[2])
    return tuple(names)


def _split(schema: str) -> list[str]:
    """At the commas that stand between columns, not within types."""
    parts = [""]
    depth = 0
    for piece in _PIECE.findall(schema):
        depth += (piece in ("(", "<")) - (piece in (")", ">"))
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _plain(node: Node) -> Any:
    """As JSON has it."""
    match node:
        case Entries():
            return {entry.key: _plain(entry.value) for entry in node.entries}
        case Items():
            return [_plain(item) for item in node.items]
        case Scalar(nothing=True):
            return None
        case Scalar(plain=True, value="true" | "false"):
            return node.value == "true"
        case Scalar(plain=True) if number := _NUMBER.fullmatch(node.value):
            return float(node.value) if number["fraction"] else int(node.value)
        case _:
            return node.value
