"""`Asker`: a question in, rows out."""

import fnmatch
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.archives.contents import Contents
from barnabas.spark.asking import statements
from barnabas.spark.asking.columns import dressed, parse_fields
from barnabas.spark.asking.narrowing import needed_columns, stand_in
from barnabas.spark.asking.pinning import Pinned, pin_archive, pin_topic
from barnabas.spark.asking.reading import pinned_frame
from barnabas.spark.asking.rendering import rendered
from barnabas.spark.asking.statements import Relation, Statement
from barnabas.spark.asking.troubles import AskingError, has_vanished, sql_error
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.deaths import sentence_of, spark_errors
from barnabas.spark.errors import UnknownTopicError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

PLANS_MAX: Final = 5
"""How often a query is planned anew, because retention or a compaction came in between."""
_AT_ONCE_MAX: Final = 10_000
"""Up to so many rows are fetched before the first is given: then all can be fetched again."""
_PATIENCE_S: Final = 10.0
"""For brokers that are away, before anything is read: a person waits."""
_SETTINGS: Final = {
    "spark.sql.python.filterPushdown.enabled": "true",
    # Otherwise ${…} in a query would be replaced, and what Spark says of places not be true.
    "spark.sql.variable.substitute": "false",
}

_ZONE: Final = "spark.sql.session.timeZone"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Column:
    """A column of an answer."""

    name: str
    kind: "DataType"


@dataclass
class _View:
    """A relation of the question, and what is known about it."""

    relation: Relation
    pin: Callable[[], Pinned]
    columns: set[str] = field(default_factory=set)


class Answer:
    """Its columns, and its rows, to be taken once."""

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Callable[[int], Iterator[tuple[Any, ...]]],
        *,
        is_text: bool = False,
    ) -> None:
        self.columns: Final = tuple(columns)
        self.is_text: Final = is_text
        """Whether it is one text of several lines, as EXPLAIN has it."""
        self._rows = rows

    def rows(self, limit: int = 0) -> Iterator[tuple[Any, ...]]:
        """Up to `limit` of them, all with 0, in bounded memory; values as `rendering` says.

        Raises SparkJobError.
        """
        return self._rows(limit)


class Asker:
    """Answers questions about topics and archives.

    `options` are those of the source that lead to the brokers (`kafka.…`), `archives` folders,
    `schemas` columns of topics' JSON values by relation. `tell` is given what a person should
    know beside the answer; `reach` may raise before brokers are asked for the first time, which
    not every question needs.
    """

    def __init__(
        self,
        spark: "SparkSession",
        options: Mapping[str, str],
        *,
        archives: Sequence[str] = (),
        schemas: Mapping[str, str] | None = None,
        tell: Tell = lambda _: None,
        reach: Callable[[], None] = lambda: None,
    ) -> None:
        # Its views are nobody else's.
        self._spark = spark.newSession()
        zone = {_ZONE: spark.conf.get(_ZONE) or "UTC"}
        for name, value in (_SETTINGS | zone).items():
            self._spark.conf.set(name, value)
        statements.forget_functions(self._spark)
        self._options = dict(options)
        known = Connection.from_options({name.lower(): value for name, value in options.items()})
        self._connection = replace(known, patience_s=min(known.patience_s, _PATIENCE_S))
        self._reach: Callable[[], None] | None = reach
        self._tell = tell
        self._fields = {name: parse_fields(name, ddl) for name, ddl in (schemas or {}).items()}
        self._archives = archives_by_topic(archives)

    def ask(self, text: str) -> Answer:
        """The answer, of which nothing has been read yet. Raises SparkJobError."""
        statement = statements.read(self._spark, text)
        if statement.lists_topics:
            return self._topics(statement.pattern)
        views = [self._view(relation) for relation in statement.relations]
        self._check_fields(views)
        for number, view in enumerate(views):
            self._make_view(view, stand_in(self._spark, number))
        try:
            frame = self._spark.sql(statement.text)
            columns = [Column(each.name, each.dataType) for each in frame.schema.fields]
            if statement.query is not None:
                # EXPLAIN is a command: it shows nothing of what it explains.
                asked = self._spark.sql(statement.query) if statement.explains else frame
                for view, needed in zip(views, needed_columns(asked, len(views)), strict=True):
                    view.columns = needed
        except spark_errors() as error:
            raise sql_error(error, text) from error
        if statement.query is None:
            return Answer(columns, lambda limit: self._fetch(lambda: frame, limit, text))
        return Answer(
            columns,
            lambda limit: self._rows(statement, views, limit, text),
            is_text=statement.explains,
        )

    def _rows(
        self, statement: Statement, views: list[_View], limit: int, text: str
    ) -> Iterator[tuple[Any, ...]]:
        """Plan and read, and again if what was planned to be read has gone meanwhile."""
        told: set[str] = set()
        pinned = self._pin(views, told)
        for attempt in range(1, PLANS_MAX + 1):
            given = False
            try:
                plan = partial(self._planned, statement, views, pinned)
                for row in self._fetch(plan, limit, text):
                    given = True
                    yield row
                return
            except _VanishedError as error:
                if given:
                    raise AskingError(
                        f"{error} Some rows were given already: ask again."
                    ) from error
                before, pinned = pinned, self._pin(views, told)
                moved = any(new.moved_from(old) for new, old in zip(pinned, before, strict=True))
                if not moved or attempt == PLANS_MAX:
                    raise AskingError(str(error)) from error

    def _pin(self, views: list[_View], told: set[str]) -> list[Pinned]:
        """Where each view's offsets come from as of now; what is missing is told once."""
        found = [view.pin() for view in views]
        for note in dict.fromkeys(note for pinned in found for note in pinned.notes):
            if note not in told:
                told.add(note)
                self._tell(note)
        return found

    def _planned(
        self, statement: Statement, views: list[_View], pinned: list[Pinned]
    ) -> "DataFrame":
        for view, each in zip(views, pinned, strict=True):
            self._make_view(view, pinned_frame(self._spark, each, self._options, view.columns))
        return self._spark.sql(statement.text)

    def _make_view(self, view: _View, raw: "DataFrame") -> None:
        fields = self._fields.get(view.relation.name)
        name = view.relation.view.replace("`", "``")
        dressed(raw, fields).createOrReplaceTempView(f"`{name}`")

    def _fetch(
        self, plan: "Callable[[], DataFrame]", limit: int, text: str
    ) -> Iterator[tuple[Any, ...]]:
        try:
            shown = rendered(plan())
            if 0 < limit <= _AT_ONCE_MAX:
                yield from shown.limit(limit).collect()
                return
            # One task's rows at a time, while the next one's are fetched.
            for number, row in enumerate(shown.toLocalIterator(prefetchPartitions=True)):
                if number == limit > 0:
                    return
                yield row
        except spark_errors() as error:
            if has_vanished(error):
                raise _VanishedError(sentence_of(error)) from error
            raise sql_error(error, text) from error

    # What there is to ask about

    def _view(self, relation: Relation) -> _View:
        if "/" in relation.name:
            folder = os.path.expanduser(relation.name)
            Contents(folder)
            return _View(relation, lambda: pin_archive(folder))
        topic = self._topic(relation.name)
        folder_of = self._archives.get(topic)
        pin_topic(self._cluster(), topic, folder_of)
        return _View(relation, lambda: pin_topic(self._cluster(), topic, folder_of))

    def _topic(self, name: str) -> str:
        """The topic that is meant: SQL takes no notice of the case of letters, topics do."""
        if name in self._archives:
            return name
        cluster = self._cluster()
        try:
            cluster.partition_counts([name])
        except UnknownTopicError:
            there = {*cluster.topic_names(), *self._archives}
            like = [each for each in there if each.lower() == name.lower()]
            if len(like) != 1:
                raise
            return like[0]
        return name

    def _cluster(self) -> Cluster:
        if self._reach is not None:
            self._reach()
            self._reach = None
        return cluster_of(self._connection)

    def _check_fields(self, views: Sequence[_View]) -> None:
        names = [view.relation.name for view in views]
        for name in self._fields:
            if name not in names:
                asked = f"asks about {', '.join(names)}" if names else "asks about no topic"
                raise AskingError(
                    f"--schema names {name}, and the query {asked}: name it the same."
                )

    def _topics(self, pattern: str | None) -> Answer:
        """SHOW TABLES: everything that can stand behind FROM."""
        cluster = self._cluster()
        names = cluster.topic_names(internal=False)
        counts = cluster.partition_counts(names) if names else {}
        everything = sorted({*names, *self._archives})
        rows = [
            (name, counts.get(name), self._archives.get(name))
            for name in everything
            if pattern is None or _is_like(name, pattern)
        ]
        from pyspark.sql.types import IntegerType, StringType

        columns = [
            Column("topic", StringType()),
            Column("partitions", IntegerType()),
            Column("archive", StringType()),
        ]
        return Answer(columns, lambda limit: iter(rows[:limit] if limit else rows))


class _VanishedError(AskingError):
    """What was planned to be read is gone."""


def _is_like(name: str, pattern: str) -> bool:
    """As SHOW TABLES has it: `*` for anything, `|` between choices."""
    return any(fnmatch.fnmatchcase(name.lower(), each) for each in pattern.lower().split("|"))


def archives_by_topic(folders: Sequence[str]) -> dict[str, str]:
    """Which folder is whose; ArchiveError for one that is no archive."""
    found: dict[str, str] = {}
    for folder in folders:
        topic = Contents(folder).topic
        if topic in found:
            raise AskingError(
                f"{found[topic]} and {folder} are both archives of {topic}: name one of them, and "
                f"ask the other alone with FROM `{folder}`."
            )
        found[topic] = folder
    return found
