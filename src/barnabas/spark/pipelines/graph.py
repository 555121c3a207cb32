"""What needs what: the order of steps, and what a sink reads through them."""

from collections.abc import Callable, Iterable, Mapping

from barnabas.spark.pipelines.definition import (
    DeduplicateStep,
    Pipeline,
    PythonStep,
    SqlStep,
    Step,
)
from barnabas.spark.pipelines.problems import Problems
from barnabas.spark.pipelines.sql_words import tables


class Graph:
    """Sources and steps by their names, which SQL takes in any case of letters."""

    def __init__(self, sources: Iterable[str], steps: Mapping[str, Step]) -> None:
        self._names = {name.lower(): name for name in (*sources, *steps)}
        self._steps = steps
        self._needs = {
            name: tuple(self._names[word] for word in _mentions(step) if word in self._names)
            for name, step in steps.items()
        }

    def needs(self, name: str) -> tuple[str, ...]:
        """What a step reads itself; a source reads nothing."""
        return self._needs.get(name, ())

    def behind(self, name: str) -> tuple[str, ...]:
        """A source or step and all that it needs, each behind what it needs itself."""
        return self.in_order([self._names[name.lower()]])

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """These and all that they need, each behind what it needs, otherwise as they come.

        In a circle the one that is come upon first stands last.
        """
        done: dict[str, None] = {}
        entered: set[str] = set()
        stack = [(name, False) for name in reversed(list(names))]
        while stack:
            name, left = stack.pop()
            if left:
                done[name] = None
            elif name not in entered:
                entered.add(name)
                stack.append((name, True))
                stack.extend((other, False) for other in reversed(self.needs(name)))
        return tuple(done)

    def steps_in_order(self) -> dict[str, Step]:
        """All steps, each behind those it needs, and otherwise as they stand in the file."""
        order = self.in_order(self._steps)
        return {name: self._steps[name] for name in order if name in self._steps}

    def note_circles(self, problems: Problems) -> None:
        """Note each circle of steps once, at the step of it that the file has first."""
        if self._is_in_order(self.in_order(self._steps)):
            return
        told: set[str] = set()
        for name in self._steps:
            circle = circle_from(name, self.needs) if name not in told else ()
            if circle and told.isdisjoint(circle):
                path = ", which needs ".join(f"steps.{step}" for step in circle[1:])
                problems.add(
                    self._steps[name].at,
                    f"steps.{name} needs {path}: a step can not need itself.",
                )
                told.update(circle)

    def _is_in_order(self, names: Iterable[str]) -> bool:
        """Whether each stands behind what it needs, which no order does with circles."""
        seen: set[str] = set()
        for name in names:
            if not seen.issuperset(self.needs(name)):
                return False
            seen.add(name)
        return True


def circle_from(start: str, nexts: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
    """The shortest way from a name back to itself, with it at both ends; empty if none."""
    came_from: dict[str, str] = {}
    line = [start]
    for name in line:  # which grows while it is walked along
        for other in nexts(name):
            if other == start:
                way = [start, name]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return tuple(reversed(way))
            if other not in came_from:
                came_from[other] = name
                line.append(other)
    return ()


def graph_of(pipeline: Pipeline) -> Graph:
    """The graph of a pipeline that was read."""
    return Graph(pipeline.sources, pipeline.steps)


def needed(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """All sources and steps that the sink of this name needs, each behind what it needs itself."""
    return graph_of(pipeline).behind(pipeline.sinks[name].input.value)


def warnings(pipeline: Pipeline) -> tuple[str, ...]:
    """A sentence for each source and step that no sink needs."""
    graph = graph_of(pipeline)
    used = set(graph.in_order(sink.input.value for sink in pipeline.sinks.values()))
    unused = [
        (thing.at, f"{thing.at}: {kind}.{name} is used by no sink.")
        for kind, things in (("sources", pipeline.sources), ("steps", pipeline.steps))
        for name, thing in things.items()
        if name not in used
    ]
    return tuple(sentence for _, sentence in sorted(unused))


def _mentions(step: Step) -> tuple[str, ...]:
    """The names a step reads, in small letters; for SQL those that stand where tables do."""
    match step:
        case SqlStep():
            return tables(step.sql.value)
        case PythonStep():
            return tuple(text.value.lower() for text in step.inputs)
        case DeduplicateStep():
            return (step.input.value.lower(),)
