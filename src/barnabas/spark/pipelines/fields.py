"""Keys of one thing in a pipeline file, read as what they are meant to be.

Each method takes a key and returns what stands there, or None after it has noted what is wrong:
so that one reading finds all that is to be mended.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from barnabas.spark.pipelines.places import At, Text
from barnabas.spark.pipelines.problems import Problems, listed, meant, nearest, shown
from barnabas.spark.pipelines.yaml_nodes import Entries, Entry, Items, Node, Scalar

Word = TypeVar("Word", bound=str)

_WHOLE = 18
"""Digits of the largest number that any field could mean."""


class Fields:
    """The keys of `label`, which stands at `at`."""

    def __init__(self, label: str, at: At, node: Entries, problems: Problems) -> None:
        self.label = label
        self.at = at
        self.problems = problems
        self._node = node
        self._entries: dict[str, Entry] = {entry.key: entry for entry in node.entries}
        self._meant: set[str] = set()

    @property
    def keys(self) -> Collection[str]:
        """Those that are there."""
        return self._entries.keys()

    def path(self, key: str) -> str:
        """`sources.orders.topic`."""
        return f"{self.label}.{shown(key)}" if self.label else shown(key)

    def place(self, key: str) -> At:
        """Where a key stands, or the whole thing if it does not."""
        return self._entries[key].at if key in self._entries else self.at

    def wrong(self, key: str, sentence: str) -> None:
        """Note that something is wrong with a key: `sentence` goes on behind its path."""
        self.problems.add(self.place(key), f"{self.path(key)} {sentence}")

    def lacks(self, key: str) -> bool:
        """Whether a key is missing, and not only misspelt."""
        return key not in self._entries and key not in self._meant

    def means(self, keys: Collection[str], known: Collection[str]) -> bool:
        """Whether one of these keys is there, maybe misspelt, of all that are `known`."""
        return any(
            key in keys or (key not in known and nearest(key, known) in keys)
            for key in self._entries
        )

    def needs(self, what: str) -> None:
        """Note that something is missing."""
        self.problems.add(self.at, f"{self.label or 'the file'} needs {what}.")

    def refuse_others(
        self, known: Collection[str], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        """Note every key that has no business here; `elsewhere` says where some of them have."""
        title = self.label or "the file"
        for key, entry in self._entries.items():
            if key in known:
                continue
            head = f"{title} has no key {shown(key)}"
            if elsewhere and key in elsewhere:
                self.problems.add(entry.at, f"{head}: that is for {elsewhere[key]}.")
            elif self._node.flow and isinstance(entry.value, Scalar) and entry.value.nothing:
                self.problems.add(
                    entry.at, f"{head}: between braces a text with a comma in it must be quoted."
                )
            else:
                near = nearest(key, known)
                self._meant |= {near} if near is not None else set()
                end = f"it takes {listed(known)}." if near is None else f"did you mean {near}?"
                self.problems.add(entry.at, f"{head}: {end}")

    def text(self, key: str) -> Text | None:
        """A text that is not empty."""
        return self._text_of(key, self._node_of(key), "a text")

    def needed(self, key: str, what: str) -> Text | None:
        """The same, and something is wrong without it."""
        if self.lacks(key):
            self.needs(f"{key}: {what}")
        return self.text(key)

    def word(self, key: str, words: tuple[Word, ...], default: Word) -> Word:
        """One of a few words."""
        given = self._text_of(key, self._node_of(key), listed(words, "or"))
        if given is None:
            return default
        for word in words:
            if word == given.value.lower():
                return word
        self._wants(key, listed(words, "or"), given.value, meant(given.value, words))
        return default

    def flag(self, key: str) -> bool:
        """True or false, and false when left out."""
        given = self._text_of(key, self._node_of(key), "true or false")
        if given is None or given.value.lower() == "false":
            return False
        if given.value.lower() != "true":
            self._wants(key, "true or false", given.value)
        return True

    def whole(self, key: str) -> int | None:
        """A whole number from 1 on."""
        what = "a whole number from 1 on"
        given = self._text_of(key, self._node_of(key), what)
        if given is None:
            return None
        digits = given.value
        if len(digits) <= _WHOLE and digits.isascii() and digits.isdigit() and int(digits) > 0:
            return int(digits)
        self._wants(key, what, given.value)
        return None

    def texts(self, key: str) -> tuple[Text, ...]:
        """A list of texts, or one alone; each once."""
        node = self._node_of(key)
        what = "a list of texts"
        if not isinstance(node, Items):
            alone = self._text_of(key, node, what)
            return () if alone is None else (alone,)
        if not node.items:
            self._wants(key, what, node, " with nothing in it.")
        found = [self._text_of(key, item, what, item.at) for item in node.items]
        given = [text for text in found if text is not None]
        seen: set[str] = set()
        for text in given:
            if text.value in seen:
                self.problems.add(text.at, f"{self.path(key)} has {shown(text.value)} twice.")
            seen.add(text.value)
        return tuple(given)

    def options(self, key: str) -> dict[str, str]:
        """Keys with texts for Spark, which writes truth in small letters."""
        given = self._texts_by_key(key, "options, each with a text", allow_empty=True)
        return {name: text.value for name, text in given.items()}

    def texts_by_key(self, key: str, what: str) -> dict[str, Text]:
        """Keys with texts that are not empty."""
        return self._texts_by_key(key, what, allow_empty=False)

    def each(self, key: str, what: str) -> Iterator[tuple[str, At, Node]]:
        """The names under a key, and what stands behind each."""
        node = self._node_of(key)
        if node is None:
            return
        if not isinstance(node, Entries):
            self._wants(key, what, node)
            return
        for entry in node.entries:
            yield entry.key, entry.at, entry.value

    def under(self, key: str) -> "Fields | None":
        """The keys below a key."""
        node = self._node_of(key)
        if node is None:
            return None
        return fields_of(self.path(key), self.place(key), node, self.problems)

    def node(self, key: str) -> Node | None:
        """What stands there, as it is."""
        return self._node_of(key)

    def _node_of(self, key: str) -> Node | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def _texts_by_key(self, key: str, what: str, *, allow_empty: bool) -> dict[str, Text]:
        node = self._node_of(key)
        if node is None:
            return {}
        if not isinstance(node, Entries):
            self._wants(key, what, node)
            return {}
        inner = Fields(self.path(key), self.place(key), node, self.problems)
        found: dict[str, Text] = {}
        for entry in node.entries:
            value = entry.value
            if allow_empty and isinstance(value, Scalar) and not value.nothing:
                found[entry.key] = Text(_as_spark_writes(value), value.at)
            else:
                text = inner._text_of(entry.key, value, "a text")
                if text is not None:
                    found[entry.key] = text
        return found

    def _text_of(self, key: str, node: Node | None, what: str, at: At | None = None) -> Text | None:
        if node is None:
            return None
        if isinstance(node, Scalar) and not node.nothing and node.value.strip():
            return Text(node.value, node.at)
        if not is_unset(node):
            self._wants(key, what, node, at=at)
        return None

    def _wants(
        self, key: str, what: str, there: Node | str, end: str = ".", *, at: At | None = None
    ) -> None:
        sentence = f"{self.path(key)} wants {what}, and {_kind(there)} stands there{end}"
        self.problems.add(at or self.place(key), sentence)


def fields_of(label: str, at: At, node: Node, problems: Problems) -> Fields | None:
    """The keys of a thing; None, and a problem, if there are none."""
    if isinstance(node, Entries):
        return Fields(label, at, node, problems)
    if not is_unset(node):
        problems.add(at, f"{label} wants keys with values, and {_kind(node)} stands there.")
    return None


def is_unset(node: Node) -> bool:
    """Whether it is a text that the environment could not complete, which has been noted."""
    return isinstance(node, Scalar) and node.unset


def checked(
    text: Text | None, check: Callable[[str], str | None], fields: Fields, key: str
) -> Text | None:
    """The text if `check` has nothing to say against it; otherwise that is noted."""
    if text is None:
        return None
    objection = check(text.value)
    if objection is None:
        return text
    fields.problems.add(text.at, f"{fields.path(key)} {objection}")
    return None


def _as_spark_writes(value: Scalar) -> str:
    return value.value.lower() if value.plain and value.value in _TRUTH else value.value


_TRUTH = frozenset({"True", "TRUE", "False", "FALSE"})


def _kind(node: Node | str) -> str:
    match node:
        case str():
            return shown(node)
        case Scalar(nothing=True):
            return "nothing"
        case Scalar():
            return shown(node.value)
        case Entries():
            return "a group of keys"
        case _:
            return "a list"
