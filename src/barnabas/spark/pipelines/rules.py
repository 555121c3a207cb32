"""What must hold between the things of a pipeline file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from barnabas.spark.pipelines.definition import (
    DeduplicateStep,
    OtherSink,
    PythonStep,
    Sink,
    Source,
    Step,
    TableSink,
    TopicSink,
    TopicSource,
)
from barnabas.spark.pipelines.graph import Graph
from barnabas.spark.pipelines.places import Text
from barnabas.spark.pipelines.problems import Problems, meant, shown
from barnabas.spark.pipelines.reading_sources import reads
from barnabas.spark.pipelines.values import has_scheme


class Names:
    """The names of sources and steps, also of those that could not be read."""

    def __init__(self, spelt: Mapping[str, str]) -> None:
        self._spelt = spelt

    def resolved(self, text: Text, path: str, problems: Problems) -> Text:
        """The text with the name as its owner spells it; a problem if nobody has it."""
        spelt = self._spelt.get(text.value.lower())
        if spelt is None:
            names = self._spelt.values()
            problems.add(
                text.at,
                f"{path} names {shown(text.value)}, which is no source and no step"
                f"{meant(text.value, names)}",
            )
            return text
        return Text(spelt, text.at)


def resolve_step(step: Step, names: Names, problems: Problems) -> Step:
    """The step with its inputs as they are spelt where they are defined."""
    path = f"steps.{step.name}"
    if isinstance(step, PythonStep):
        found = [names.resolved(text, f"{path}.inputs", problems) for text in step.inputs]
        return replace(step, inputs=tuple(found))
    if isinstance(step, DeduplicateStep):
        return replace(step, input=names.resolved(step.input, f"{path}.deduplicate", problems))
    return step


def resolve_sink(sink: Sink, names: Names, problems: Problems) -> Sink:
    """The sink with its input as it is spelt where it is defined."""
    return replace(sink, input=names.resolved(sink.input, f"sinks.{sink.name}.from", problems))


def check_streams(
    sources: Mapping[str, Source],
    steps: Mapping[str, Step],
    sinks: Mapping[str, Sink],
    problems: Problems,
) -> None:
    """Each sink reads a stream, and none that it writes itself."""
    graph = Graph(sources, steps)
    for sink in sinks.values():
        names = graph.behind(sink.input.value)
        behind = [sources[name] for name in names if name in sources]
        if not any(_is_stream(source) for source in behind):
            rootless = [steps[name] for name in names if name in steps and not graph.needs(name)]
            _note_no_stream(sink, rootless, sources, problems)
        for source in behind:
            if isinstance(sink, TopicSink) and reads(source, sink.topic.value):
                problems.add(
                    sink.topic.at,
                    f"sinks.{sink.name}.topic is {sink.topic.value}, which sources.{source.name} "
                    "reads for this sink: its own rows would come in again, so take another topic.",
                )


def _note_no_stream(
    sink: Sink, rootless: Sequence[Step], sources: Mapping[str, Source], problems: Problems
) -> None:
    """At the steps that read nothing, if there are: mostly a FROM is misspelt or missing."""
    for step in rootless:
        problems.add(
            step.at,
            f"steps.{step.name} reads no source and no step: after FROM it needs one of them, such "
            f"as {next(iter(sources))}.",
        )
    if not rootless:
        problems.add(
            sink.at,
            f"sinks.{sink.name} reads no stream: at least one source behind it must be a "
            "topic without table: true, or have stream: true.",
        )


def check_places(folder: str, sinks: Mapping[str, Sink], problems: Problems) -> None:
    """Each table has a folder for itself."""
    taken: list[tuple[str, Sink]] = []
    for sink in sinks.values():
        written = _written(sink)
        if written is None:
            continue
        path = absolute(folder, written.value)
        for other_path, other in taken:
            if not isinstance(sink, TableSink) and not isinstance(other, TableSink):
                continue
            if path == other_path:
                how = f"is the folder of sinks.{other.name}, too"
            elif _inside(path, other_path):
                how = f"lies in the folder of sinks.{other.name}"
            elif _inside(other_path, path):
                how = f"has the folder of sinks.{other.name} in it"
            else:
                continue
            key = "table" if isinstance(sink, TableSink) else "path"
            problems.add(
                written.at,
                f"sinks.{sink.name}.{key} {how}: a table needs a folder of its own.",
            )
        taken.append((path, sink))


def check_dead_letters(
    sources: Mapping[str, Source], sinks: Mapping[str, Sink], problems: Problems
) -> None:
    """No sink is named like the query that writes dead letters."""
    for name in sources:
        sink = sinks.get(f"dead-letter-{name}")
        if sink is not None:
            problems.add(
                sink.at,
                f"sinks.{sink.name} is the name of the query for the dead letters of "
                f"sources.{name}: take another name.",
            )


def absolute(folder: str, path: str) -> str:
    """A path of the file, which begins at the file's folder; one with a scheme stays as it is."""
    return path.rstrip("/") if has_scheme(path) else os.path.normpath(os.path.join(folder, path))


def _is_stream(source: Source) -> bool:
    return not source.table if isinstance(source, TopicSource) else source.stream


def _written(sink: Sink) -> Text | None:
    if isinstance(sink, TableSink):
        return sink.path
    if isinstance(sink, OtherSink) and sink.path is not None:
        return Text(sink.path, sink.at)
    return None


def _inside(path: str, outer: str) -> bool:
    return path.startswith(outer.rstrip("/") + "/")
