"""Rows that would go round for ever: topics that a file writes, and reads for what it writes."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from barnabas.spark.pipelines.definition import Sink, Source, Step, TopicSink, TopicSource
from barnabas.spark.pipelines.graph import Graph, circle_from
from barnabas.spark.pipelines.places import Text
from barnabas.spark.pipelines.problems import Problems
from barnabas.spark.pipelines.reading_sources import reads


class _Way(NamedTuple):
    """A topic by which rows of one source come into another, and who writes it."""

    key: str
    topic: Text


def note_loops(
    sources: Mapping[str, Source],
    steps: Mapping[str, Step],
    sinks: Mapping[str, Sink],
    problems: Problems,
) -> None:
    """Note each loop through several sources once, at the first of its lines.

    Those through one source are told by others: they are simpler to say.
    """
    feeds = _feeds(sources, steps, sinks)
    told: set[str] = set()
    for name in feeds:
        circle = circle_from(name, lambda source: feeds.get(source, {})) if name not in told else ()
        if len(set(circle)) > 1 and told.isdisjoint(circle):
            hops = [(feeds[source][other], other) for source, other in pairwise(circle)]
            _note(hops, problems)
            told.update(circle)


def _note(loop: list[tuple[_Way, str]], problems: Problems) -> None:
    first = min(range(len(loop)), key=lambda number: loop[number][0].topic.at.line)
    hops = [
        f"{way.key} is {way.topic.value}, which sources.{reader} reads"
        for way, reader in loop[first:] + loop[:first]
    ]
    problems.add(
        loop[first][0].topic.at,
        f"{', and '.join(hops)}: rows would go round for ever, so take another topic.",
    )


def _feeds(
    sources: Mapping[str, Source], steps: Mapping[str, Step], sinks: Mapping[str, Sink]
) -> dict[str, dict[str, _Way]]:
    """Which source gets rows of which, and how. A table gets none: it is only looked up."""
    graph = Graph(sources, steps)
    streams = {
        name: source
        for name, source in sources.items()
        if isinstance(source, TopicSource) and not source.table
    }
    ways: dict[str, list[_Way]] = {}
    for sink in sinks.values():
        for name in graph.behind(sink.input.value):
            source = streams.get(name)
            if source is None:
                continue
            out = ways.setdefault(name, [])
            if isinstance(sink, TopicSink):
                out.append(_Way(f"sinks.{sink.name}.topic", sink.topic))
            if source.dead_letter is not None:
                out.append(_Way(f"sources.{name}.dead_letter", source.dead_letter))
    return {
        name: {
            other: way
            for other in ways  # those that no sink needs are not read
            for way in reversed(ways[name])
            if reads(streams[other], way.topic.value)
        }
        for name in ways
    }
