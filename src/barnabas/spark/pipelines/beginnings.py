"""`starting: latest`, made into offsets once for a run.

Each query has its own position. Were each to ask for the end when it begins, a record that comes in
between could be before the beginning of the one that writes rows, and its dead letter before that
of the one that writes dead letters: in neither.

For the same reason a later run goes on with the offsets of an earlier one that was killed too soon.
Spark journals where the first batch of a query ends, but not where it begins: one that was killed
in it must be given the same beginning again, or that batch would come out empty. And a query that
was killed before it has to begin where those did that were not.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.pipelines.definition import Pipeline, TopicSource
from barnabas.spark.pipelines.graph import needed
from barnabas.spark.pipelines.sources import topic_options
from barnabas.spark.pipelines.state import DEAD_LETTER, State
from barnabas.spark.places import Place, offsets_from_json, offsets_to_json
from barnabas.spark.sink.journal import source_offsets
from barnabas.spark.source.options import parse
from barnabas.spark.source.starting import EARLIEST
from barnabas.spark.tables import durable

FILE: Final = "beginnings.json"


class _Known(NamedTuple):
    """What the file says: offsets by the names of sources."""

    run: str | None = None
    rows: Mapping[str, str] = {}
    dead: Mapping[str, str] = {}


def with_beginnings(pipeline: Pipeline, run: str, state: State) -> Pipeline:
    """The same with offsets for `latest`: the ends of the topics when this run began.

    For queries that have no position yet; a driver that is started again finds what the first one
    of its run has found.
    """
    sources = [
        source
        for source in pipeline.sources.values()
        if isinstance(source, TopicSource)
        and source.starting == "latest"
        and not source.table
        # Whether the topic of another one is there nobody has checked.
        and _sinks(pipeline, source)
    ]
    if not sources:
        return pipeline
    path = os.path.join(pipeline.state, FILE)
    known = _read(path)
    if known.run != run or any(source.name not in known.dead for source in sources):
        found = {source.name: _found(pipeline, source, state, known) for source in sources}
        rows = {name: json.dumps(offsets_to_json(each[0])) for name, each in found.items()}
        dead = {name: json.dumps(offsets_to_json(each[1])) for name, each in found.items()}
        known = _Known(run, rows, dead)
        said = {"run": run, "sources": rows, "dead": dead}
        durable.replace(path, json.dumps(said).encode())
    begun = {
        source.name: replace(
            source, beginning=known.rows[source.name], dead_beginning=known.dead[source.name]
        )
        for source in sources
    }
    return replace(pipeline, sources={**pipeline.sources, **begun})


def _read(path: str) -> _Known:
    """Nothing, if the file can not be read: then it is made anew."""
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        rows, dead = (
            {str(name): _checked(text) for name, text in said[key].items()}
            for key in ("sources", "dead")
        )
        return _Known(str(said["run"]), rows, dead)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return _Known()


def _checked(text: str) -> str:
    offsets_from_json(json.loads(text))
    return text


def _found(
    pipeline: Pipeline, source: TopicSource, state: State, known: _Known
) -> tuple[dict[Place, int], dict[Place, int]]:
    """Where the rows of a source begin, and where its dead letters do."""
    options = parse(topic_options(pipeline, source), streaming=True)
    cluster = cluster_of(options.connection)
    places = options.subscription.places(cluster)
    if source.name in known.dead and _is_unfinished(pipeline, source, state):
        rows, dead = (_again(said[source.name], places) for said in (known.rows, known.dead))
    else:
        rows = dead = cluster.latest(places, committed=options.committed)
    return rows, _behind_sinks(pipeline, source, state, dead)


def _again(text: str, places: Iterable[Place]) -> dict[Place, int]:
    """Offsets of an earlier run; of a partition that has come since, all came after them."""
    before = offsets_from_json(json.loads(text))
    return {place: before.get(place, EARLIEST) for place in places}


def _is_unfinished(pipeline: Pipeline, source: TopicSource, state: State) -> bool:
    """Whether a query still has to begin where an earlier run did."""
    names = _sinks(pipeline, source)
    if source.dead_letter is not None:
        names.append(f"{DEAD_LETTER}{source.name}")
    begun = {name for name in names if _newest(state, name, "offsets") is not None}
    if any(_newest(state, name, "commits") is None for name in begun):
        return True
    # One of which no shape is known is new, and none of an earlier run.
    waits = any(name not in begun and state.query(name).shape is not None for name in names)
    return waits and bool(begun)


def _behind_sinks(
    pipeline: Pipeline, source: TopicSource, state: State, dead: Mapping[Place, int]
) -> dict[Place, int]:
    """Not after what a sink has still to read.

    `dead_letter` may be new because a record without one has stopped a sink: that record is behind
    the sink's position, and no dead letter is before it.
    """
    found = dict(dead)
    own = _newest(state, f"{DEAD_LETTER}{source.name}", "offsets")
    if source.dead_letter is None or own is not None:
        return found
    for name in _sinks(pipeline, source):
        batch = _newest(state, name, "commits")
        if batch is None:
            continue
        for place, offset in source_offsets(state.checkpoint(name), batch).items():
            if offset < found.get(place, EARLIEST):
                found[place] = offset
    return found


def _sinks(pipeline: Pipeline, source: TopicSource) -> list[str]:
    return [name for name in pipeline.sinks if source.name in needed(pipeline, name)]


def _newest(state: State, name: str, journal: str) -> int | None:
    """The number of the newest batch in one of Spark's journals of a query; None without any."""
    try:
        names = os.listdir(os.path.join(state.checkpoint(name), journal))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return max((int(each) for each in names if each.isascii() and each.isdigit()), default=None)
