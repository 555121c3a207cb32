"""What a pipeline must remember from run to run: `pipeline.json` in its state folder.

Which generation of each query's checkpoint counts, what shape the query had, and which of Spark's
queries the checkpoint belongs to.
"""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from barnabas.spark.pipelines.definition import Pipeline, TableSink, TopicSource
from barnabas.spark.pipelines.folders import folder_of_files, is_filled
from barnabas.spark.pipelines.graph import needed
from barnabas.spark.pipelines.places import At, PipelineError
from barnabas.spark.pipelines.sources import path_in
from barnabas.spark.sink.journal import local_path
from barnabas.spark.tables.durable import replace

FILE: Final = "pipeline.json"
DEAD_LETTER: Final = "dead-letter-"
"""Before the name of a source: the query that writes its dead letters."""
_VERSION: Final = 1


@dataclass(slots=True)
class Remembered:
    """One query."""

    generation: int = 1
    shape: dict[str, Any] | None = None
    """As `shapes.shape_of` told it when the query was last started."""
    id: str | None = None
    """Spark's, from the checkpoint; None as long as it was never started."""


class State:
    """The file, and the checkpoints next to it. Its methods may be called by any thread."""

    def __init__(self, folder: str, pipeline: str, queries: Mapping[str, Remembered]) -> None:
        self.folder = folder
        self.pipeline = pipeline
        self._queries = dict(queries)
        self._turn = threading.Lock()

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self:
        """Read it; a new one when there is none. PipelineError for another pipeline's."""
        path = os.path.join(pipeline.state, FILE)
        try:
            with open(path, encoding="utf-8") as file:
                said = json.load(file)
            queries = {name: Remembered(**each) for name, each in said["queries"].items()}
            name, version = str(said["pipeline"]), said["version"]
        except FileNotFoundError:
            return cls(pipeline.state, pipeline.name, {})
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise PipelineError(
                None,
                f"{path} is damaged ({problem or type(problem).__name__}): put back a copy of it, "
                f"or move the folder {pipeline.state} away to begin anew.",
            ) from problem
        if version != _VERSION:
            raise PipelineError(None, f"{path} was written by a newer version of barnabas.")
        if name != pipeline.name:
            raise PipelineError(
                At(pipeline.file, 1),
                f"the state folder {pipeline.state} belongs to pipeline {name}, not to "
                f"{pipeline.name}: name another folder with state, or this pipeline {name} again.",
            )
        return cls(pipeline.state, name, queries)

    def query(self, name: str) -> Remembered:
        """What is remembered of one; a first generation when nothing is."""
        with self._turn:
            return self._queries.get(name) or Remembered()

    def shapes(self) -> dict[str, dict[str, Any]]:
        """Those with which queries were last started."""
        with self._turn:
            queries = self._queries.items()
            return {name: query.shape for name, query in queries if query.shape is not None}

    def checkpoint(self, name: str) -> str:
        """The folder of its present generation."""
        generation = str(self.query(name).generation)
        return os.path.join(self.folder, "checkpoints", name, generation)

    def keep_shape(self, name: str, shape: dict[str, Any]) -> None:
        """It is about to be started with this shape."""
        self._change(name, lambda query: setattr(query, "shape", shape))

    def keep_id(self, name: str, spark_id: str) -> None:
        """It was started, and its checkpoint belongs to this query of Spark's."""
        self._change(name, lambda query: setattr(query, "id", spark_id))

    def begin_anew(self, name: str) -> int:
        """The next generation: no offsets, no state, no shape; its number."""

        def begin(query: Remembered) -> None:
            query.generation, query.shape, query.id = query.generation + 1, None, None

        self._change(name, begin)
        return self.query(name).generation

    def has_begun(self, name: str) -> bool:
        """Whether its present generation was started, be it that only its checkpoint knows."""
        return self.query(name).id is not None or _id_in(self.checkpoint(name)) is not None

    def check_checkpoint(self, name: str) -> None:
        """PipelineError when the checkpoint is not the one this query had before.

        A query that begins at batch 0 again under its old name would take its first batches for
        written, and leave them out.
        """
        before = self.query(name).id
        if before is None:
            return
        folder = self.checkpoint(name)
        found = _id_in(folder)
        if found == before:
            return
        what = "is gone" if found is None else "belongs to another query"
        raise PipelineError(
            None,
            f"The checkpoint {folder} of query {name} {what}: put back the one it had, or run with "
            f"--reset {name} to read and write everything again.",
        )

    def _change(self, name: str, change: Any) -> None:
        with self._turn:
            query = self._queries.setdefault(name, Remembered())
            before = asdict(query)
            change(query)
            if asdict(query) != before:
                self._write()

    def _write(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        queries = {name: asdict(query) for name, query in sorted(self._queries.items())}
        said = {"version": _VERSION, "pipeline": self.pipeline, "queries": queries}
        text = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
        replace(os.path.join(self.folder, FILE), text.encode())


def query_names(pipeline: Pipeline) -> list[str]:
    """The queries of a file: its sinks, then the dead letters of sources that a sink needs."""
    wanted = {name for sink in pipeline.sinks for name in needed(pipeline, sink)}
    dead = [
        f"{DEAD_LETTER}{source.name}"
        for source in pipeline.sources.values()
        if isinstance(source, TopicSource)
        and source.dead_letter is not None
        and source.name in wanted
    ]
    return [*pipeline.sinks, *dead]


def reset(pipeline: Pipeline, state: State, names: list[str]) -> list[str]:
    """Begin these queries anew; what that means, a sentence for each. PipelineError before any."""
    known = query_names(pipeline)
    for name in names:
        if name not in known:
            raise PipelineError(
                At(pipeline.file, 1), f"--reset {name}: the sinks are {', '.join(known)}."
            )
        _check_nothing_doubles(pipeline, name)
    return [
        f"{name} begins anew (generation {state.begin_anew(name)}): it reads from where its "
        "sources start, and writes again what is still in the topics."
        for name in dict.fromkeys(names)
    ]


def _check_nothing_doubles(pipeline: Pipeline, name: str) -> None:
    """A table keeps its rows, and would get all of them a second time; Spark's files none."""
    sink = pipeline.sinks.get(name)
    files = None if sink is None else folder_of_files(pipeline, sink)
    if sink is not None and files is not None and is_filled(files):
        raise PipelineError(
            sink.at,
            f"--reset {name} would leave out batches, for those of the same numbers are noted in "
            f"{files}: move or delete that folder first.",
        )
    if not isinstance(sink, TableSink) or sink.mode == "complete":
        return
    folder = local_path(path_in(pipeline, sink.path.value))
    if folder is not None and os.path.isdir(folder) and os.listdir(folder):
        raise PipelineError(
            sink.at,
            f"--reset {name} would write every row into the table {folder} a second time: move or "
            "delete that folder first.",
        )


def _id_in(checkpoint: str) -> str | None:
    """Spark's name for the query of a checkpoint."""
    try:
        with open(os.path.join(checkpoint, "metadata"), encoding="utf-8") as file:
            return str(json.load(file)["id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return ""
