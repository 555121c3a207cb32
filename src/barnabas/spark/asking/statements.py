"""What a question is about: the relations it names, found by Spark's own parser.

Only questions: whatever writes, or changes the session, is refused before it is run.
"""

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.asking.troubles import AskingError, sql_error
from barnabas.spark.deaths import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical."
_NO_QUESTION: Final = (
    f"{_PLANS}Command",
    f"{_PLANS}ParsedStatement",
    f"{_PLANS}CompoundPlanStatement",
)
_NO_QUESTION_NAMES: Final = frozenset(
    {
        "UnresolvedExecuteImmediate",
        "Call",
        # INSERT OVERWRITE DIRECTORY: it becomes a command only when it is analyzed, and run then.
        "InsertIntoDir",
        # Whatever the name decides upon, a command perhaps, is not known before that.
        "PlanWithUnresolvedIdentifier",
        "ScriptTransformation",
    }
)
_WORDS: Final = {
    "PlanWithUnresolvedIdentifier": "IDENTIFIER with a name that has to be computed",
    "ScriptTransformation": "TRANSFORM, which runs a program,",
}
"""What to call those that do not begin a statement."""
_NO_FUNCTIONS: Final = ("java_method", "reflect", "try_reflect")
"""They call whatever Java has, which is no question."""
_INNER: Final = {"ExplainCommand": "logicalPlan", "DescribeQueryCommand": "plan"}
"""Commands that hold a question, and where."""
_ABOUT_NAMES: Final = frozenset(
    {"DescribeRelation", "DescribeColumn", "ShowColumns", "ShowFunctions", "DescribeFunction"}
)
"""Commands that tell what there is, and read nothing."""
_RELATIONS: Final = frozenset({"UnresolvedRelation", "UnresolvedTableOrView"})
_FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Relation:
    """Something that a question reads."""

    name: str
    """As it was written, its parts joined with dots: a topic, or a folder."""
    view: str
    """What `Statement.text` calls it."""


@dataclass(frozen=True)
class Statement:
    """A question that can be run once there is a view for each of its relations."""

    text: str
    """In it a name of several parts is one of as many characters, so that places stay theirs."""
    relations: tuple[Relation, ...]
    query: str | None
    """What of `text` reads rows: all of it but for EXPLAIN; None where it only tells of columns."""
    lists_topics: bool = False
    """SHOW TABLES."""
    pattern: str | None = None
    """What SHOW TABLES LIKE says."""

    @property
    def explains(self) -> bool:
        """EXPLAIN."""
        return self.query not in (None, self.text)


@dataclass(frozen=True)
class _Named:
    """A relation where it stands; `stop` is its last character."""

    parts: tuple[str, ...]
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Topics may have dots in their names."""
        return ".".join(self.parts)

    @property
    def is_file(self) -> bool:
        """Whether it is Spark's own way to read files: csv.`/some/file`."""
        return len(self.parts) > 1 and "/" in self.parts[-1]


def forget_functions(spark: "SparkSession") -> None:
    """Take functions from a session, and only from this one, that do more than answer."""
    session: Any = spark
    java = session._jvm
    known = session._jsparkSession.sessionState().functionRegistry()
    for name in _NO_FUNCTIONS:
        place = java.scala.Some("builtin"), java.scala.Some("system")
        known.dropFunction(java.org.apache.spark.sql.catalyst.FunctionIdentifier(name, *place))


def read(spark: "SparkSession", text: str) -> Statement:
    """Take a question apart; AskingError if it is none."""
    if not text.strip():
        raise AskingError("There is nothing to ask: give a query, such as SELECT * FROM orders.")
    session: Any = spark
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except spark_errors() as error:
        raise sql_error(error, text) from error
    name = _kind(plan)
    if name == "ShowTables":
        pattern = plan.pattern()
        wanted = str(pattern.get()) if pattern.isDefined() else None
        return Statement(text, (), None, lists_topics=True, pattern=wanted)
    if name in _ABOUT_NAMES:
        return _with_views(text, list(_named(plan)), None)
    asked = getattr(plan, _INNER[name])() if name in _INNER else plan
    _check_question(spark, asked, text)
    query_from = {
        "ExplainCommand": _index(asked.origin().startIndex()),
        "DescribeQueryCommand": None,
    }
    return _with_views(text, list(_named(asked)), query_from.get(name, 0))


def _with_views(text: str, named: list[_Named], query_from: int | None) -> Statement:
    """Give each relation a view whose name is one word, and no two the same."""
    views: dict[str, str] = {}
    # Those of one part first: they keep their names, by which columns may be called, too.
    for each in sorted(named, key=lambda each: len(each.parts)):
        if each.name not in views and not each.is_file:
            views[each.name] = _free_view(each.name, {view.lower() for view in views.values()})
    run = text
    for each in sorted(named, key=lambda each: each.start, reverse=True):
        view = views.get(each.name)
        if view is not None and each.parts != (view,):
            written = view if _WORD.fullmatch(view) else f"`{view}`"
            written = written.ljust(each.stop + 1 - each.start)
            run = run[: each.start] + written + run[each.stop + 1 :]
    relations = tuple(Relation(name, view) for name, view in views.items())
    return Statement(run, relations, None if query_from is None else run[query_from:])


def _free_view(name: str, taken: set[str]) -> str:
    """The name itself, or one as long where dots are in it or another differs only in case."""
    plain = name if "/" in name else name.replace(".", "_")
    others = (plain[:-1] + letter for letter in string.ascii_lowercase + string.digits)
    for view in (plain, *others):
        if view.lower() not in taken:
            return view
    raise AskingError(f"Too many names in one query are like {name}: ask about fewer at a time.")


def _named(plan: Any, local: frozenset[str] = frozenset()) -> Iterator[_Named]:
    """Every relation under a plan, but for those that WITH has defined above it."""
    kind = _kind(plan)
    if kind in _RELATIONS:
        parts = tuple(map(str, _items(plan.multipartIdentifier())))
        if len(parts) > 1 or parts[0].lower() not in local:
            at = plan.origin()
            yield _Named(parts, _index(at.startIndex()), _index(at.stopIndex()))
    if kind == "UnresolvedWith":
        recursive = bool(plan.allowRecursion())
        for definition in _items(plan.cteRelations()):
            name = str(definition._1()).lower()
            yield from _named(definition._2(), local | {name} if recursive else local)
            local = local | {name}
    for each in (*_items(plan.children()), *_items(plan.subqueries())):
        yield from _named(each, local)


def _check_question(spark: "SparkSession", plan: Any, text: str) -> None:
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

    gateway = spark.sparkContext._gateway
    for node in _nodes(plan):
        if _kind(node) in _NO_QUESTION_NAMES or any(
            is_instance_of(gateway, node, each) for each in _NO_QUESTION
        ):
            word = _FIRST_WORD.match(text)
            what = _WORDS.get(_kind(node)) or (word[1].upper() if word else "that")
            raise AskingError(
                f"This only answers questions, and {what} is none: ask with SELECT, WITH, VALUES, "
                "TABLE, DESCRIBE, EXPLAIN or SHOW TABLES."
            )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    inner = (
        [definition._2() for definition in _items(plan.cteRelations())]
        if (_kind(plan) == "UnresolvedWith")
        else []
    )
    for each in (*inner, *_items(plan.children()), *_items(plan.subqueries())):
        yield from _nodes(each)


def _kind(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _index(option: Any) -> int:
    return int(option.get())
