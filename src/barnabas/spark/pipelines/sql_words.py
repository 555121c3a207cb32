"""SQL as words, as far as that goes without Spark: enough to see which tables it reads."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from barnabas.model.check import BrokenInvariantError

_TOKEN: Final = re.compile(
    r"(?P<skip>\s++|--(?:\\\r?\n|[^\r\n])*+)"
    r"|(?P<comment>/\*)"
    r"|(?P<string>[rR](?:'[^']*+'|\"[^\"]*+\")|'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
    r"|`(?P<quoted>(?:[^`]|``)++)`"
    r"|(?P<word>[^\W\d]\w*+)"
    r"|(?P<number>\d\w*+)"
    r"|(?P<sign>\|>|.)",
    re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")

_ENDS_FROM: Final = frozenset({
    "select", "where", "group", "having", "order", "sort", "cluster", "distribute", "limit",
    "offset", "window", "qualify", "union", "intersect", "except", "minus", "pivot", "unpivot",
})  # fmt: skip
"""Behind these a comma does not stand before a table any more."""
_INSTEAD_OF_TABLE: Final = frozenset({"select", "from", "with", "table", "lateral"})
"""What may stand where a table could, and is none even if one is named so."""
_FROM_WITHIN: Final = frozenset({"extract", "trim", "substring", "substr", "overlay", "position"})
"""Functions with a FROM of their own between their parentheses."""


def tokens(sql: str) -> Iterator[tuple[str, str]]:
    """Words, names in backquotes, strings, and all other signs, each with its kind."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        # `.` takes whatever is left
        if found is None:
            raise BrokenInvariantError("found is there by now")
        at = found.end()
        kind = found.lastgroup or "sign"
        if kind == "comment":
            at = _comment_end(sql, at)
        elif kind != "skip":
            text = found[kind]
            yield kind, text.replace("``", "`") if kind == "quoted" else text


def _comment_end(sql: str, at: int) -> int:
    """Comments stand in comments, as Spark has it; one that is not closed goes to the end."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(sql, at)
        if edge is None:
            return len(sql)
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


def unbalanced(sql: str) -> bool:
    """Whether a parenthesis or a quote is opened or closed alone."""
    depth = 0
    for kind, text in tokens(sql):
        if kind == "sign":
            if text in ("'", '"', "`"):
                return True
            depth += (text == "(") - (text == ")")
            if depth < 0:
                return True
    return depth != 0


@dataclass(slots=True)
class _Level:
    """What is known within one pair of parentheses."""

    opener: str = ""
    """The word before the parenthesis, in small letters."""
    table_next: bool = False
    """Whether a table's name may come now."""
    in_from: bool = False
    """Whether a comma is followed by another table."""
    defines: str | None = None
    """The name that WITH gives to what is in these parentheses."""
    with_list: bool = False
    """Whether names that WITH defines come now."""
    pending: str | None = None
    """The last of them."""
    recursive: bool = False
    hidden: set[str] = field(default_factory=set)
    """Names that WITH gave so far, which hide tables of the same name."""


def tables(sql: str) -> tuple[str, ...]:
    """The names in SQL that stand where tables do, in small letters, each once.

    Names with a dot in them are tables of a catalog, and those that WITH defines are the query's
    own. It may take a column for a table in SQL that is unusual; Spark alone knows exactly.
    """
    found: dict[str, None] = {}
    levels = [_Level()]
    words = [*tokens(sql), ("end", "")]
    before = ""
    for index, (kind, text) in enumerate(words[:-1]):
        level = levels[-1]
        word = text.lower()
        name = kind in ("word", "quoted")
        if word == "(" and kind == "sign":
            levels.append(_opened(level, before))
        elif word == ")" and kind == "sign":
            _close(levels)
        elif kind == "word" and _keyword(level, word, before, words[index + 1][1]):
            pass
        elif name and level.with_list and before in ("with", "recursive", ","):
            level.pending = word
            if level.recursive:
                level.hidden.add(word)
        elif name and level.table_next:
            level.table_next = False
            dotted = words[index + 1] == ("sign", ".")
            called = words[index + 1] == ("sign", "(")
            if not dotted and not called and not any(word in outer.hidden for outer in levels):
                found[word] = None
        elif kind == "sign":
            level.table_next = word == "," and level.in_from
            if word == "|>":
                level.in_from = False
        else:
            level.table_next = False
        before = word
    return tuple(found)


def _opened(level: _Level, before: str) -> _Level:
    inner = _Level(opener=before)
    if level.with_list and before in ("as", "materialized"):
        inner.defines = level.pending
    elif level.table_next or before == "table":
        # FROM (a JOIN b …), FROM (SELECT …), TABLE(a)
        inner.table_next = inner.in_from = True
        level.table_next = False
    return inner


def _close(levels: list[_Level]) -> None:
    if len(levels) > 1:
        closed = levels.pop()
        if closed.defines is not None:
            levels[-1].hidden.add(closed.defines)


def _keyword(level: _Level, word: str, before: str, following: str) -> bool:
    """Whether the word is one that says what comes next, and what it says is noted."""
    if before == "." or following == "." or (level.table_next and word not in _INSTEAD_OF_TABLE):
        return False
    match word:
        case "with" if following not in ("(", ","):
            level.with_list, level.table_next = True, False
        case "recursive" if before == "with":
            level.recursive = True
        case "from" if before != "distinct" and level.opener not in _FROM_WITHIN:
            level.table_next = level.in_from = True
            level.with_list = False
        case "join" | "table":
            level.table_next = True
        case "lateral" if level.table_next:
            pass
        case "view" if before == "lateral":
            level.table_next = level.in_from = False
        case _ if word in _ENDS_FROM:
            level.table_next = level.in_from = level.with_list = False
        case _:
            return False
    return True
