"""The pipeline files below a folder, as `pipeline list` finds them."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.pipeline_lag import total
from barnabas.cli.pipeline_status import Found, find_locally
from barnabas.model.errors import BarnabasError

_ENDINGS: Final = (".yaml", ".yml")
_PIPELINE: Final = re.compile(r"""^["']?pipeline["']?\s*:""", re.MULTILINE)
"""The key that makes a YAML file one, also when the rest of it can not be parsed."""
_SKIPPED: Final = ("node_modules", "__pycache__")
_FILE_BYTES_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Listed:
    """One file."""

    file: str
    found: Found | None
    lag: int | None
    problem: str | None = None
    """Why it can not be read: the first reason, and how many more there are."""
    is_unset: bool = False
    """It is no mistake of the file: variables are missing in the environment, and only they."""

    @property
    def state(self) -> str:
        """In a word."""
        if self.found is not None:
            return self.found.phase
        return "unset" if self.is_unset else "broken"

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        found, holder = self.found, self.found.holder if self.found is not None else None
        return {
            "file": self.file,
            "pipeline": found.pipeline.name if found is not None else None,
            "sinks": list(found.pipeline.sinks) if found is not None else [],
            "state": self.state,
            "running": holder is not None,
            "since": holder.since if holder is not None else None,
            "lag": self.lag,
            "problem": self.problem,
        }

    def as_row(self) -> list[object]:
        """For a table."""
        said = self.as_object()
        sinks = ", ".join(said["sinks"]) or "-"
        columns = (said["pipeline"], sinks, said["state"], said["since"], said["lag"])
        return [self.file, *columns]


def list_pipelines(folder: str) -> list[Listed]:
    """All of them, by path. BarnabasError when there is no such folder."""
    if not os.path.isdir(folder):
        raise BarnabasError(f"There is no folder {folder}.")
    return [_listed(file) for file in pipeline_files(folder)]


def pipeline_files(folder: str) -> Iterator[str]:
    """YAML files with the key `pipeline`; hidden folders are left out."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED
        )
        for name in sorted(files):
            file = os.path.normpath(os.path.join(where, name))
            if name.endswith(_ENDINGS) and _PIPELINE.search(_beginning(file)):
                yield file


def _beginning(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(_FILE_BYTES_MAX)
    except OSError:
        return ""


def _listed(file: str) -> Listed:
    from barnabas.spark.pipelines.reading import read

    try:
        found = find_locally(read(file))
    except BarnabasError as error:
        return _unreadable(file, error)
    groups = [query.group for query in found.queries]
    lag = total(found.pipeline.servers, groups) if found.last is not None else None
    return Listed(file, found, lag)


def _unreadable(file: str, error: BarnabasError) -> Listed:
    from barnabas.spark.pipelines.environment import UnsetError
    from barnabas.spark.pipelines.problems import PipelineErrors

    problems = error.problems if isinstance(error, PipelineErrors) else (error,)
    is_unset = all(isinstance(each, UnsetError) for each in problems)
    problem, more = str(problems[0]), len(problems) - 1
    if more:
        problem += f" (And {more} more: `barnabas pipeline check {file}` tells all of them.)"
    return Listed(file, None, None, problem, is_unset)
