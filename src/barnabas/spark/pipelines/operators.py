"""What a streaming plan keeps state for, told in terms of the sources' columns.

Spark finds the state of an operator again by the operator's place in the plan, and takes the rows
in it for rows of the types it expects. Whether they mean the same it can not know: a sum of one
column goes on as the sum of another. So it is told here what each state means: keys, functions,
stored columns; and only those that something above needs, since Spark leaves out the others.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from barnabas.spark.pipelines.plans import (
    Node,
    bounded,
    by_chance,
    conjuncts,
    references,
    text_of,
    type_text,
)

_STREAMS: Final = frozenset(
    ("StreamingRelationV2", "StreamingRelation", "StreamingExecutionRelation")
)
_DEDUPLICATIONS: Final = {
    "Deduplicate": "deduplication",
    "DeduplicateWithinWatermark": "deduplication within the watermark",
}
_OF_PYTHON: Final = frozenset(
    (
        "FlatMapGroupsInPandasWithState", "FlatMapGroupsWithState", "TransformWithState",
        "TransformWithStateInPandas", "TransformWithStateInPySpark",
    )
)  # fmt: skip
_PASSED_THROUGH: Final = frozenset(("SubqueryAlias", "View", "Filter"))
_OUTPUTS: Final = ("output", "outputAttrs", "generatorOutput")
_PUSHED_LEFT: Final = frozenset(("Inner$", "Cross$", "LeftOuter$", "LeftSemi$", "LeftAnti$"))
_PUSHED_RIGHT: Final = frozenset(("Inner$", "Cross$", "RightOuter$"))

Operator = dict[str, Any]
"""`kind`, and by kind `keys`, `functions`, `on`, `left`, `right`, …: texts and lists of texts."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of some node: Spark's number of it, and what it is made of."""

    id: int
    name: str
    text: str


class StreamingPlan:
    """An analysed plan; `sources` are names of the temporary views at which texts begin."""

    def __init__(self, plan: Node, sources: Collection[str]) -> None:
        self._plan = plan
        self._sources = {name.lower(): name for name in sources}
        self._definitions = {
            node.fields["id"]: node for node in plan.walk() if node.kind == "CTERelationDef"
        }
        self._columns: dict[int, list[Column]] = {}
        self._found: list[Operator] = []

    def streams(self) -> list[str]:
        """The streams in the order in which Spark numbers them: the names of their sources."""
        seen: dict[tuple[int, ...], str] = {}
        self._collect_streams(self._plan, None, seen)
        return list(seen.values())

    def operators(self) -> list[Operator]:
        """All that keeps state, from the top of the plan down."""
        self._found = []
        self._go(self._plan, {column.id for column in self.columns(self._plan)})
        return self._found

    def is_streaming(self, node: Node) -> bool:
        """Whether rows keep coming out of it."""
        if node.kind == "CTERelationRef":
            return self.is_streaming(self._definition(node))
        return node.kind in _STREAMS or any(map(self.is_streaming, node.children))

    def _collect_streams(
        self, node: Node, source: str | None, seen: dict[tuple[int, ...], str]
    ) -> None:
        source = self._source(node) or source
        if node.kind in _STREAMS:
            # A stream that is read twice, as in a join with itself, is one to Spark.
            numbers = tuple(attribute.id for attribute in node.several("output"))
            seen.setdefault(numbers, source or str(node.fields.get("sourceName")))
        for child in node.children:
            self._collect_streams(child, source, seen)

    def _source(self, node: Node) -> str | None:
        """The name of the source that begins here: as its view, not as an alias of another."""
        if node.kind != "SubqueryAlias" or node.children[0].kind != "View":
            return None
        return self._sources.get(str(node.fields["identifier"]["name"]).lower())

    def _definition(self, reference: Node) -> Node:
        return self._definitions[reference.fields["cteId"]].children[0]

    # What columns are made of

    def columns(self, node: Node) -> list[Column]:
        """Of a node, in their order."""
        known = self._columns.get(id(node))
        if known is None:
            known = self._columns[id(node)] = self._columns_of(node)
        return known

    def _columns_of(self, node: Node) -> list[Column]:
        source = self._source(node)
        if source is not None:
            return self._of_source(node, source)
        if node.kind in ("Project", "Aggregate"):
            field = "projectList" if node.kind == "Project" else "aggregateExpressions"
            return self._of_expressions(node, node.several(field))
        if node.kind == "Union":
            return self._of_union(node)
        if node.kind == "CTERelationRef":
            below = self.columns(self._definition(node))
            named = node.several("output")
            return [
                Column(attribute.id, column.name, column.text)
                for attribute, column in zip(named, below, strict=True)
            ]
        if node.kind == "WithCTE":
            return self.columns(node.children[node.fields["plan"]])
        if node.kind == "Expand":
            return self._of_expand(node)
        if node.kind == "Join" and _join_type(node) in ("LeftSemi$", "LeftAnti$"):
            return self.columns(node.children[0])
        return self._of_others(node)

    def _of_source(self, node: Node, source: str) -> list[Column]:
        schema = node.children[0].fields["desc"]["schema"]["fields"]
        types = {field["name"]: type_text(field["type"]) for field in schema}
        return [
            Column(column.id, column.name, f"{source}.{column.name}: {types.get(column.name)}")
            for column in self.columns(node.children[0])
        ]

    def _of_expressions(self, node: Node, expressions: list[Node]) -> list[Column]:
        below = self._texts(node)
        return [
            Column(each.id, str(each.fields["name"]), text_of(each, below)) for each in expressions
        ]

    def _of_union(self, node: Node) -> list[Column]:
        branches = [self.columns(child) for child in node.children]
        return [
            Column(
                columns[0].id,
                columns[0].name,
                bounded(" or ".join(dict.fromkeys(column.text for column in columns))),
            )
            for columns in zip(*branches, strict=True)
        ]

    def _of_expand(self, node: Node) -> list[Column]:
        """Sliding windows: each row once for each of the windows it is in."""
        below = self._texts(node)
        rows = [Node("", {"": row}, ()).several("") for row in node.fields["projections"]]
        return [
            Column(attribute.id, str(attribute.fields["name"]), text_of(first, below))
            for attribute, first in zip(node.several("output"), rows[0], strict=True)
        ]

    def _of_others(self, node: Node) -> list[Column]:
        below = [column for child in node.children for column in self.columns(child)]
        own = next((node.several(field) for field in _OUTPUTS if node.several(field)), [])
        known = {column.id for column in below}
        maker = self._maker(node)
        made = [
            Column(
                attribute.id,
                str(attribute.fields["name"]),
                f"{maker}.{attribute.fields['name']}: {type_text(attribute.fields['dataType'])}",
            )
            for attribute in own
            if attribute.id not in known
        ]
        return made if own and node.kind != "Generate" else below + made

    def _maker(self, node: Node) -> str:
        """What columns come from that are made of nothing below them."""
        generator, function = node.one("generator"), node.one("functionExpr")
        if generator is not None:
            return text_of(generator, self._texts(node))
        if function is not None:
            return str(function.fields.get("name"))
        return str(node.fields.get("sourceName") or node.kind.lower())

    def _texts(self, node: Node) -> dict[int, str]:
        return {column.id: column.text for child in node.children for column in self.columns(child)}

    # What is kept, and what is needed for what is above

    def _go(self, node: Node, needed: set[int]) -> None:
        streaming = self.is_streaming(node)
        if node.kind == "Aggregate":
            self._aggregate(node, needed, streaming=streaming)
        elif node.kind == "Join":
            self._join(node, needed)
        elif node.kind == "Project":
            wanted = [each for each in node.several("projectList") if each.id in needed]
            self._below(node, _all_references(wanted))
        elif node.kind == "Filter":
            self._filter(node, needed)
        elif node.kind == "Union":
            self._union(node, needed)
        elif node.kind == "CTERelationRef":
            below = self.columns(self._definition(node))
            pairs = zip(self.columns(node), below, strict=True)
            self._go(self._definition(node), {under.id for own, under in pairs if own.id in needed})
        elif node.kind == "WithCTE":
            self._go(node.children[node.fields["plan"]], needed)
        else:
            self._other(node, needed, streaming=streaming)

    def _below(self, node: Node, needed: set[int]) -> None:
        for child in node.children:
            self._go(child, needed)

    def _keep(self, node: Node, kind: str, **told: Any) -> None:
        watermarks = sorted(self._watermarks(node, None))
        self._found.append({"kind": kind, **told, "watermarks": watermarks})

    def _watermarks(self, node: Node, source: str | None) -> set[str]:
        """The columns by which rows are too late, of all streams below."""
        source = self._source(node) or source
        if node.kind == "CTERelationRef":
            return self._watermarks(self._definition(node), source)
        found = {mark for child in node.children for mark in self._watermarks(child, source)}
        time = node.one("eventTime") if node.kind == "EventTimeWatermark" else None
        if time is not None:
            within = f"{source}.{time.fields.get('name')}" if source is not None else None
            found.add(within or text_of(time, self._texts(node)))
        return found

    def _aggregate(self, node: Node, needed: set[int], *, streaming: bool) -> None:
        below = self._texts(node)
        keys = node.several("groupingExpressions")
        wanted = [each for each in node.several("aggregateExpressions") if each.id in needed]
        if streaming:
            functions = [
                text_of(part, below)
                for each in wanted
                for part in each.walk()
                if part.kind == "AggregateExpression"
            ]
            self._keep(
                node,
                "aggregation",
                keys=[text_of(key, below) for key in keys],
                functions=list(dict.fromkeys(functions)),
            )
        self._below(node, _all_references(keys + wanted))

    def _join(self, node: Node, needed: set[int]) -> None:
        left, right = ({column.id for column in self.columns(child)} for child in node.children)
        kind = _join_type(node)
        conditions = conjuncts(node.one("condition"))
        # Conditions on one side alone are checked before rows are stored.
        kept = [
            each
            for each in conditions
            if not (kind in _PUSHED_RIGHT and references(each) <= left)
            and not (kind in _PUSHED_LEFT and references(each) <= right)
        ]
        stored = needed | _all_references(kept)
        if all(map(self.is_streaming, node.children)):
            texts = self._texts_by_side(node)
            self._keep(
                node,
                f"join ({kind.removesuffix('$').lower()})",
                on=[text_of(each, texts) for each in kept],
                left=[c.text for c in self.columns(node.children[0]) if c.id in stored],
                right=[c.text for c in self.columns(node.children[1]) if c.id in stored],
            )
        self._below(node, needed | _all_references(conditions))

    def _texts_by_side(self, node: Node) -> dict[int, str]:
        """In a join of a stream with itself both sides have the same columns."""
        sides = [self.columns(child) for child in node.children]
        if {column.text for column in sides[0]}.isdisjoint(column.text for column in sides[1]):
            return self._texts(node)
        return {
            column.id: f"{side} {column.text}"
            for side, columns in zip(("left", "right"), sides, strict=True)
            for column in columns
        }

    def _filter(self, node: Node, needed: set[int]) -> None:
        kept = [
            each
            for each in conjuncts(node.one("condition"))
            if by_chance(each) or not self._goes_below(references(each), node.children[0])
        ]
        self._below(node, needed | _all_references(kept))

    def _goes_below(self, numbers: set[int], node: Node) -> bool:
        """Whether Spark filters by these columns before a join stores rows, and not behind it."""
        if node.kind in _PASSED_THROUGH:
            return self._goes_below(numbers, node.children[0])
        if node.kind == "Project":
            meant = [each for each in node.several("projectList") if each.id in numbers]
            if any(map(by_chance, meant)):
                return False
            return self._goes_below(_all_references(meant), node.children[0])
        if node.kind != "Join":
            return False
        left, right = ({column.id for column in self.columns(child)} for child in node.children)
        kind = _join_type(node)
        return (kind in _PUSHED_LEFT and numbers <= left) or (
            kind in _PUSHED_RIGHT and numbers <= right
        )

    def _union(self, node: Node, needed: set[int]) -> None:
        places = [at for at, column in enumerate(self.columns(node)) if column.id in needed]
        for child in node.children:
            columns = self.columns(child)
            self._go(child, {columns[at].id for at in places})

    def _other(self, node: Node, needed: set[int], *, streaming: bool) -> None:
        texts = self._texts(node)
        if streaming and node.kind in _DEDUPLICATIONS:
            keys = [text_of(key, texts) for key in node.several("keys")]
            self._keep(node, _DEDUPLICATIONS[node.kind], keys=keys)
        elif streaming and node.kind == "Distinct":
            keys = [column.text for column in self.columns(node)]
            self._keep(node, "aggregation", keys=keys, functions=[])
        elif streaming and node.kind == "GlobalLimit":
            self._keep(node, "limit")
        elif streaming and node.kind in _OF_PYTHON:
            keys = [text_of(key, texts) for key in node.several("groupingAttributes")]
            first = int(node.fields.get("groupingAttributesLen") or 0)
            keys += [column.text for column in self.columns(node.children[0])[:first]]
            columns = [column.text for column in self.columns(node)]
            self._keep(node, "Python's own state", function=self._maker(node), keys=keys,
                       columns=columns)  # fmt: skip
        own = {
            number
            for field in node.fields
            for each in (node.one(field), *node.several(field))
            if each is not None
            for number in references(each)
        }
        everything = node.kind == "Distinct" or any(node.several(field) for field in _OUTPUTS)
        if everything and node.kind != "Generate":
            own |= {column.id for child in node.children for column in self.columns(child)}
        self._below(node, needed | own)


def _all_references(expressions: list[Node]) -> set[int]:
    return {number for each in expressions for number in references(each)}


def _join_type(node: Node) -> str:
    """`Inner$`, `LeftOuter$`, …."""
    return str(node.fields["joinType"].get("object", "")).rpartition(".")[2]
