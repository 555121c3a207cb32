"""A pipeline file becomes a Pipeline, or a list of all that is wrong with it."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines import rules, values
from barnabas.spark.pipelines.definition import (
    Function,
    Pipeline,
    Sink,
    Source,
    Step,
    TopicSink,
    TopicSource,
)
from barnabas.spark.pipelines.environment import fill
from barnabas.spark.pipelines.fields import Fields, checked, fields_of
from barnabas.spark.pipelines.graph import Graph
from barnabas.spark.pipelines.loops import note_loops
from barnabas.spark.pipelines.places import At, PipelineError
from barnabas.spark.pipelines.problems import PipelineErrors, Problems, shown
from barnabas.spark.pipelines.reading_options import kafka_options, spark_settings
from barnabas.spark.pipelines.reading_sinks import read_sink
from barnabas.spark.pipelines.reading_sources import read_source
from barnabas.spark.pipelines.reading_steps import read_function, read_step
from barnabas.spark.pipelines.yaml_nodes import Node, compose

__all__ = ["PipelineErrors", "read"]

SIZE_MAX: Final = 1 << 20

Thing = TypeVar("Thing")

_KEYS: Final = (
    "pipeline", "servers", "state", "trigger", "settings", "kafka", "functions", "sources",
    "steps", "sinks",
)  # fmt: skip


def read(path: str, environment: Mapping[str, str] = os.environ) -> Pipeline:
    """What a file says; PipelineErrors with every problem that can be found without Spark."""
    problems = Problems()
    folder = os.path.dirname(os.path.abspath(path))
    pipeline = None
    try:
        text = _text_of(path)
        node = compose(text, path, lambda one: fill(one, environment, problems), problems)
        if node is None:
            raise PipelineError(
                At(path, 1), "the file is empty: a pipeline needs sources and sinks."
            )
        fields = fields_of("the file", At(path, 1), node, problems)
        if fields is not None:
            fields.label = ""
            pipeline = _Reading(path, folder, fields, problems).pipeline()
    except PipelineError as problem:
        problems.take(problem)
    problems.raise_any(path)
    if pipeline is None:
        raise BrokenInvariantError("pipeline is there by now")
    return pipeline


def _text_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(SIZE_MAX + 1)
    except IsADirectoryError:
        raise PipelineError(None, f"{path} is a folder: name the pipeline file in it.") from None
    except (FileNotFoundError, ValueError):
        raise PipelineError(None, f"There is no file {shown(path)}.") from None
    except OSError as error:
        raise PipelineError(None, f"{path} can not be read: {error.strerror}.") from error
    if len(data) > SIZE_MAX:
        raise PipelineError(None, f"{path} is larger than 1 MiB, which no pipeline file is.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PipelineError(
            At(path, line), f"the byte 0x{data[error.start]:02x} is not UTF-8: save it as UTF-8."
        ) from None


class _Reading:
    """One file on its way."""

    def __init__(self, path: str, folder: str, fields: Fields, problems: Problems) -> None:
        self._path = path
        self._folder = folder
        self._fields = fields
        self._problems = problems
        self._relations: dict[str, str] = {}
        """Sources and steps, also those that could not be read: in small letters, and spelt."""

    def pipeline(self) -> Pipeline | None:
        fields, problems = self._fields, self._problems
        fields.refuse_others(_KEYS)
        name = fields.needed("pipeline", "its name, such as orders-by-minute")
        name = checked(name, values.pipeline_name, fields, "pipeline")
        servers = checked(fields.text("servers"), values.servers, fields, "servers")
        state = checked(fields.text("state"), values.local_path, fields, "state")
        trigger = checked(fields.text("trigger"), values.duration, fields, "trigger")
        settings, kafka = spark_settings(fields), kafka_options(fields)
        functions = self._functions()
        sources, steps, sinks = self._parts()
        if name is None or len(problems):
            return None
        where = os.path.join(".barnabas", name.value) if state is None else state.value
        return Pipeline(
            self._path,
            self._folder,
            name.value,
            "" if servers is None else servers.value.strip(),
            os.path.normpath(os.path.join(self._folder, where)),
            sources,
            Graph(sources, steps).steps_in_order(),
            sinks,
            functions,
            None if trigger is None else trigger.value,
            settings,
            kafka,
        )

    def _functions(self) -> dict[str, Function]:
        given = self._fields.each("functions", "names, each with a Python function")
        return self._named("functions", given, {}, partial(read_function, problems=self._problems))

    def _parts(self) -> tuple[dict[str, Source], dict[str, Step], dict[str, Sink]]:
        problems, folder = self._problems, self._folder
        before = len(problems)
        sources: dict[str, Source] = self._named(
            "sources",
            self._needed("sources", "names, each with a topic or a file"),
            self._relations,
            partial(read_source, folder=folder, problems=problems),
        )
        steps: dict[str, Step] = self._named(
            "steps",
            self._fields.each("steps", "names, each with SQL or Python"),
            self._relations,
            partial(read_step, folder=folder, problems=problems),
        )
        sinks = self._sinks()
        self._need_servers(sources, sinks)
        names = rules.Names(self._relations)
        steps = {name: rules.resolve_step(step, names, problems) for name, step in steps.items()}
        sinks = {name: rules.resolve_sink(sink, names, problems) for name, sink in sinks.items()}
        rules.check_places(folder, sinks, problems)
        rules.check_dead_letters(sources, sinks, problems)
        Graph(sources, steps).note_circles(problems)
        read_all = set(self._relations.values()) == {*sources, *steps}
        if len(problems) == before and read_all:  # otherwise it is not known what a sink reads
            rules.check_streams(sources, steps, sinks, problems)
            note_loops(sources, steps, sinks, problems)
        return sources, steps, sinks

    def _sinks(self) -> dict[str, Sink]:
        found: dict[str, Sink] = {}
        for name, at, node in self._needed("sinks", "names, each with a topic or a table"):
            objection = values.sink_name(name)
            if objection is not None:
                self._problems.add(at, f"sinks.{shown(name)} {objection}")
                continue
            sink = read_sink(name, at, node, self._folder, self._problems)
            if sink is not None:
                found[name] = sink
        return found

    def _needed(self, key: str, what: str) -> list[tuple[str, At, Node]]:
        found = len(self._problems)
        things = list(self._fields.each(key, what))
        misspelt = key not in self._fields.keys and not self._fields.lacks(key)
        if not things and not misspelt and len(self._problems) == found:
            self._problems.add(
                self._fields.place(key), f"the file has no {key}: a pipeline needs one at least."
            )
        return things

    def _named(
        self,
        kind: str,
        given: Iterable[tuple[str, At, Node]],
        taken: dict[str, str],
        read_one: Callable[[str, At, Node], Thing | None],
    ) -> dict[str, Thing]:
        """Things with names that SQL can use, no two of which it would take for the same."""
        found: dict[str, Thing] = {}
        for name, at, node in given:
            objection = values.identifier(name)
            if objection is not None:
                self._problems.add(at, f"{kind}.{shown(name)} {objection}")
            elif name.lower() in taken:
                other = taken[name.lower()]
                self._problems.add(
                    at, f"{kind}.{name} has the name of another ({other}): SQL has one {other}."
                )
                continue
            taken[name.lower()] = name
            thing = read_one(name, at, node)
            if thing is not None and objection is None:
                found[name] = thing
        return found

    def _need_servers(self, sources: Mapping[str, Source], sinks: Mapping[str, Sink]) -> None:
        topics = [
            thing
            for thing in (*sources.values(), *sinks.values())
            if isinstance(thing, (TopicSource, TopicSink))
        ]
        if topics and self._fields.lacks("servers"):
            self._fields.needs("servers: host:port of the broker that has its topics")
