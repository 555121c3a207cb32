"""What `pipeline check` finds in each file."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.spark.pipelines.definition import Pipeline


@dataclass(frozen=True, slots=True)
class Checked:
    """One file."""

    file: str
    pipeline: "Pipeline | None"
    """None when it could not even be read."""
    problems: list[str]

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        found = self.pipeline
        return {
            "file": self.file,
            "fine": not self.problems,
            "pipeline": found.name if found is not None else None,
            "sources": len(found.sources) if found is not None else None,
            "steps": len(found.steps) if found is not None else None,
            "sinks": len(found.sinks) if found is not None else None,
            "problems": self.problems,
            "warnings": self.warnings(),
        }

    def warnings(self) -> list[str]:
        """What is no mistake, but may not be meant."""
        from barnabas.spark.pipelines.graph import warnings

        return list(warnings(self.pipeline)) if self.pipeline is not None else []

    def lines(self) -> list[str]:
        """For a person."""
        if self.problems or self.pipeline is None:
            return [*self.problems, *self.warnings()]
        found = self.pipeline
        parts = [
            _counted(len(found.sources), "source"),
            _counted(len(found.steps), "step"),
            _counted(len(found.sinks), "sink"),
        ]
        return [f"{self.file}: fine ({', '.join(parts)})", *self.warnings()]


def check_files(files: list[str], *, offline: bool, master: str | None) -> list[Checked]:
    """In the order given; one Spark is started for all those that can be read."""
    from barnabas.spark.pipelines.checks import check_all

    checked = [_read(file) for file in files]
    readable = [each.pipeline for each in checked if each.pipeline is not None]
    if readable:
        problems = iter(check_all(readable, offline=offline, master=master))
        for each in checked:
            if each.pipeline is not None:
                each.problems.extend(next(problems))
    return checked


def _read(file: str) -> Checked:
    from barnabas.spark.pipelines.reading import read

    try:
        return Checked(file, read(file), [])
    except BarnabasError as error:
        return Checked(file, None, str(error).splitlines())


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
