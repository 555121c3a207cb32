"""YAML as nodes that know their lines: texts, lists, and keys with values; nothing else.

What a text means (a number, true, a duration) is up to the field it stands in, so that a country
`no` stays one. Nothing in a file makes objects or grows without bounds.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from barnabas.spark.pipelines.places import At, PipelineError, Text
from barnabas.spark.pipelines.problems import Problems, shown
from barnabas.spark.pipelines.yaml_errors import syntax_error

DEPTH_MAX: Final = 50
NODES_MAX: Final = 50_000
"""With what aliases stand for counted each time."""

_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TAGS: Final = "tag:yaml.org,2002:"
_TEXT_TAG: Final = f"{_TAGS}str"
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*+|\s++|#.*+)*+")
"""An anchor and a tag, which may stand on lines before the text they belong to."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, however it was quoted."""

    value: str
    at: At
    """Of a block (`|`, `>`) the line of its content, otherwise where it begins."""
    plain: bool = False
    nothing: bool = False
    """Whether YAML takes it for null."""
    unset: bool = False
    """Whether the environment lacks something that belongs in it."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: "tuple[Node, ...]"
    at: At


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and what stands behind it."""

    key: str
    at: At
    """Of the key."""
    value: "Node"


@dataclass(frozen=True, slots=True)
class Entries:
    """Keys with values; each key once."""

    entries: tuple[Entry, ...]
    at: At
    flow: bool = False
    """Whether it is written between braces, where a comma begins the next key."""


Node = Scalar | Items | Entries
Fill = Callable[[Text], str | None]


def compose(text: str, file: str, fill: Fill, problems: Problems) -> Node | None:
    """The one document of a file, None if there is nothing in it; `fill` completes each text.

    Raises PipelineError where it is no YAML; a key that stands twice goes to `problems`.
    """
    return _Composer(text, file, fill, problems).document()


class _Composer:
    def __init__(self, text: str, file: str, fill: Fill, problems: Problems) -> None:
        self._text = text
        self._file = file
        self._fill = fill
        self._problems = problems
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml.SafeLoader))
        self._line = 1
        self._anchors: dict[str, tuple[Node, int] | None] = {}
        self._nodes = 0

    def document(self) -> Node | None:
        self._next()  # the stream begins
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        node = self._node(self._next(), 0)
        self._next()  # the document ends
        end = self._next()
        if not isinstance(end, yaml.StreamEndEvent):
            raise PipelineError(
                self._at(end), "a second document begins here: a pipeline is a file of its own."
            )
        return node

    def _next(self) -> Any:
        try:
            event = next(self._events)
        except yaml.YAMLError as error:
            raise syntax_error(error, self._text, self._file) from error
        except (ValueError, OverflowError) as error:  # numbers in escapes and directives
            raise PipelineError(
                At(self._file, self._line), f"YAML can not read on from here: {error}."
            ) from error
        self._line = event.start_mark.line + 1
        return event

    def _at(self, event: Any) -> At:
        return At(self._file, event.start_mark.line + 1)

    def _node(self, event: Any, depth: int) -> Node:
        at = self._at(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), at)
        if depth >= DEPTH_MAX:
            raise PipelineError(at, f"this is nested more than {DEPTH_MAX} levels deep.")
        self._count(1, at)
        if event.tag is not None and event.tag != _TEXT_TAG:
            tag = shown(event.tag.replace(_TAGS, "!!"))
            raise PipelineError(at, f"the tag {tag} has no meaning here: leave it out.")
        before = self._nodes
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Items(tuple(self._items(depth)), at)
        else:
            node = Entries(self._entries(depth), at, bool(event.flow_style))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1 + self._nodes - before)
        return node

    def _count(self, nodes: int, at: At) -> None:
        self._nodes += nodes
        if self._nodes > NODES_MAX:
            raise PipelineError(at, f"the file has more than {NODES_MAX} values up to here.")

    def _alias(self, name: str, at: At) -> Node:
        if name not in self._anchors:
            raise PipelineError(at, f"the alias *{shown(name)} has no anchor &{shown(name)} above.")
        known = self._anchors[name]
        if known is None:
            raise PipelineError(at, f"the alias *{shown(name)} stands for what it stands in.")
        self._count(known[1], at)
        return known[0]

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _entries(self, depth: int) -> tuple[Entry, ...]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            at = self._at(event)
            # A key is a name and the same everywhere, so that the environment has no part in it.
            key = self._raw(event) if isinstance(event, yaml.ScalarEvent) else None
            if key is None or key.nothing:
                raise PipelineError(at, "a key is missing, or is no text.")
            self._count(1, at)
            value = self._node(self._next(), depth + 1)
            if key.plain and key.value == "<<":
                for entry in self._merged(value, at):
                    merged.setdefault(entry.key, entry)
            elif key.value in own:
                first = own[key.value].at.line
                self._problems.add(
                    at, f"the key {shown(key.value)} stands here again, after line {first}."
                )
            else:
                own[key.value] = Entry(key.value, at, value)
        return tuple((merged | own).values())

    def _merged(self, value: Node, at: At) -> Iterator[Entry]:
        """YAML's `<<: *defaults`: keys of others, which stand behind the own ones."""
        for node in value.items if isinstance(value, Items) else (value,):
            if not isinstance(node, Entries):
                raise PipelineError(at, "<< wants keys with values, as in <<: *defaults.")
            self._count(len(node.entries), at)
            yield from node.entries

    def _scalar(self, event: Any) -> Scalar:
        raw = self._raw(event)
        if raw.nothing:
            return raw
        filled = self._fill(Text(raw.value, raw.at))
        return Scalar(filled or "", raw.at, raw.plain, unset=filled is None)

    def _raw(self, event: Any) -> Scalar:
        start = event.start_mark
        line = start.line + 1
        if event.anchor is not None or event.tag is not None:
            properties = _PROPERTIES.match(self._text, start.index, event.end_mark.index)
            line += properties[0].count("\n") if properties else 0
        if event.style in ("|", ">"):
            line += 1
        at = At(self._file, line)
        if any("\ud800" <= letter <= "\udfff" for letter in event.value):
            raise PipelineError(at, "an escape in this text is half a character: write it whole.")
        plain = event.style is None and event.tag is None
        return Scalar(event.value, at, plain, plain and event.value in _NOTHING)
