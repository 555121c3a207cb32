"""Where in a pipeline file something stands, and errors that say so."""

from dataclasses import dataclass

from barnabas.spark.errors import SparkJobError


@dataclass(frozen=True, slots=True, order=True)
class At:
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        """`orders.yaml:12`, as editors and compilers write it."""
        return f"{self.file}:{self.line}"

    def below(self, lines: int) -> "At":
        """So many lines further down."""
        return At(self.file, self.line + lines)


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the file, and the line on which its first line stands."""

    value: str
    at: At


class PipelineError(SparkJobError):
    """Something in the file must be changed: `orders.yaml:12: …`, one sentence."""

    def __init__(self, at: At | None, sentence: str) -> None:
        super().__init__(f"{at}: {sentence}" if at is not None else sentence)
        self.at = at
