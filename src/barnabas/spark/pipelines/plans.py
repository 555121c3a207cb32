"""Spark's plan of a DataFrame as a tree of plain values, and its expressions as text.

Numbers that Spark gives to columns differ from start to start, and so do names that people give
them: an expression's text names the columns it is made of, down to those of the sources.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXT_CHARS_MAX: Final = 240
"""Longer texts end in a digest of the whole: expressions in expressions grow without bound."""
_SIGNS: Final = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%",
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=",
    "GreaterThan": ">", "GreaterThanOrEqual": ">=", "And": "AND", "Or": "OR",
    "TimestampAddInterval": "+", "TimeAdd": "+",
}  # fmt: skip
_NOT_TOLD: Final = frozenset(
    (
        # Numbers and places of the moment, and what depends on the machine.
        "class", "num-children", "exprId", "resultId", "evalContext", "evalMode", "timeZoneId",
        "randomSeed", "hideSeed", "nullable", "metadata", "qualifier", "failOnError", "mode",
        # Which child is which; they stand in this order anyway.
        "child", "children", "left", "right", "branches", "elseValue", "aggregateFunction",
        "filter", "value", "dataType", "name", "replacement", "evalType", "udfDeterministic",
    )
)  # fmt: skip
_WRAPPERS: Final = frozenset(
    ("Alias", "AggregateExpression", "Between", "CommonExpressionDef", "KnownNullable")
)
_BY_CHANCE: Final = frozenset(("Rand", "Randn", "Uuid", "Shuffle"))
_MICROSECONDS: Final = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan or of an expression."""

    kind: str
    """Its class in Spark, without the package."""
    fields: Mapping[str, Any]
    children: tuple["Node", ...]

    def one(self, field: str) -> "Node | None":
        """The expression in a field, if there is one."""
        value = self.fields.get(field)
        return tree(value) if isinstance(value, list) and _is_tree(value) else None

    def several(self, field: str) -> "list[Node]":
        """The expressions in a field."""
        value = self.fields.get(field)
        if not isinstance(value, list):
            return []
        return [tree(each) for each in value if _is_tree(each)]

    def walk(self) -> "Iterator[Node]":
        """Itself and all below, each before its children, as Spark goes through it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def id(self) -> int:
        """Of an attribute or an alias: by what others refer to it."""
        return int(self.fields["exprId"]["id"])


def analyzed(frame: "DataFrame") -> Node:
    """What Spark understood the frame to be, before it makes it fast."""
    return tree(json.loads(frame._jdf.queryExecution().analyzed().toJSON()))


def tree(nodes: list[dict[str, Any]]) -> Node:
    """A tree out of Spark's list of its nodes, in which each says how many children it has."""
    rest = iter(nodes)
    return _next_node(rest)


def _next_node(rest: Iterator[dict[str, Any]]) -> Node:
    fields = next(rest)
    children = tuple(_next_node(rest) for _ in range(fields["num-children"]))
    return Node(fields["class"].rpartition(".")[2], fields, children)


def _is_tree(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and "num-children" in value[0]
    )


def references(expression: Node) -> set[int]:
    """The columns an expression is made of."""
    return {node.id for node in expression.walk() if node.kind == "AttributeReference"}


def by_chance(expression: Node) -> bool:
    """Whether it comes out otherwise each time."""
    return any(node.kind in _BY_CHANCE for node in expression.walk())


def conjuncts(condition: Node | None) -> list[Node]:
    """The conditions that AND connects."""
    if condition is None:
        return []
    if condition.kind == "And":
        return [each for child in condition.children for each in conjuncts(child)]
    return [condition]


def text_of(expression: Node, columns: Mapping[int, str]) -> str:
    """The expression in words; `columns` has the texts of the columns below it."""
    return bounded(_text(expression, columns))


def bounded(text: str) -> str:
    """Texts grow when they are put into each other; two that differ still do."""
    if len(text) <= _TEXT_CHARS_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: _TEXT_CHARS_MAX - 20]}…{digest}"


def type_text(data_type: Any) -> str:
    """A type out of Spark's JSON as SQL writes it."""
    from pyspark.sql.types import StructType

    field = {"name": "_", "type": data_type, "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType.simpleString()


def _text(node: Node, columns: Mapping[int, str]) -> str:
    if node.kind == "AttributeReference":
        return columns.get(node.id, node.fields["name"])
    if node.kind in _WRAPPERS:
        return _of_wrapped(node, columns)
    if node.kind == "With" and len(node.children) == 2:
        meant = text_of(node.children[1], columns)
        return text_of(node.children[0], columns).replace("commonexpressionref()", meant)
    if node.kind == "Literal":
        return _literal(node)
    if node.kind in _BY_CHANCE:
        return f"{node.kind.lower()}()"
    window = _window(node, columns)
    if window is not None:
        return window
    parts = [text_of(child, columns) for child in node.children]
    if node.kind in _SIGNS and len(parts) == 2:
        return f"({parts[0]} {_SIGNS[node.kind]} {parts[1]})"
    if node.kind == "Cast":
        return f"cast({parts[0]} as {type_text(node.fields['dataType'])})"
    if node.kind == "GetStructField":
        return f"{parts[0]}.{node.fields.get('name') or node.fields['ordinal']}"
    name = node.fields.get("name") if node.kind == "PythonUDF" else None
    return f"{name or node.kind.lower()}({', '.join(parts + _details(node))})"


def _of_wrapped(node: Node, columns: Mapping[int, str]) -> str:
    inner = text_of(node.children[0], columns)
    if node.kind != "AggregateExpression":
        return inner
    if node.fields.get("isDistinct"):
        inner = f"distinct {inner}"
    return " where ".join((inner, *(text_of(child, columns) for child in node.children[1:])))


def _literal(node: Node) -> str:
    value, kind = node.fields.get("value"), node.fields["dataType"]
    if kind == "string":
        return f"'{value}'"
    return f"{value}" if kind in ("integer", "boolean") else f"{value} {type_text(kind)}"


def _details(node: Node) -> list[str]:
    """What an expression says besides its children: the format of a date, the type it gives."""
    told = []
    for key, value in sorted(node.fields.items()):
        if key in _NOT_TOLD or value is None:
            continue
        if isinstance(value, str | int | float | bool):
            told.append(f"{key} {value}")
        elif isinstance(value, dict) and "type" in value:
            told.append(f"{key} {type_text(value)}")
    if node.kind == "PythonUDF":
        told.append(type_text(node.fields["dataType"]))
    return told


def _window(node: Node, columns: Mapping[int, str]) -> str | None:
    """`window(orders.at, 1 minute)`: what Spark makes of it is long, and the same for each."""
    if node.kind != "CreateNamedStruct" or len(node.children) != 4:
        return None
    times = [each.children[0] for each in node.walk() if _converts_to(each, "long")]
    ends = [each.children[0] for each in node.children[3].walk() if _converts_to(each, "timestamp")]
    if not times or not ends:
        return None
    time = text_of(times[0], columns)
    remainder = next((each for each in node.walk() if each.kind == "Remainder"), None)
    if remainder is None:
        return f"session_window({time}, to {text_of(ends[0].children[0], columns)})"
    slide = _long(remainder.children[1])
    offset = _long(remainder.children[0].children[-1])
    size = _long(ends[0].children[-1])
    if slide is None or offset is None or size is None:
        return None
    told = [time, duration_text(size)]
    if slide != size or offset:
        told.append(duration_text(slide))
    if offset:
        told.append(duration_text(offset))
    return f"window({', '.join(told)})"


def _converts_to(node: Node, kind: str) -> bool:
    return node.kind == "PreciseTimestampConversion" and node.fields["toType"] == kind


def _long(node: Node) -> int | None:
    if node.kind == "Literal" and node.fields["dataType"] == "long":
        return int(node.fields["value"])
    return None


def duration_text(microseconds: int) -> str:
    """`90000000` as `90 seconds`: in the largest unit that leaves no rest."""
    for size, name in _MICROSECONDS:
        if microseconds and microseconds % size == 0:
            count = microseconds // size
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    return "0 seconds"
