"""All that is wrong with a file, gathered and told at once."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from barnabas.spark.pipelines.places import At, PipelineError

_SHOWN_MAX: Final = 60


class PipelineErrors(PipelineError):  # noqa: N818 (several of them)
    """One or more problems of a file: its text has a sentence for each, on a line of its own."""

    def __init__(self, problems: Sequence[PipelineError]) -> None:
        super().__init__(None, "\n".join(map(str, problems)))
        self.at = problems[0].at
        self.problems = tuple(problems)


class Problems:
    """Gathers what is wrong while the reading goes on."""

    def __init__(self) -> None:
        self._found: dict[str, PipelineError] = {}

    def __len__(self) -> int:
        """How many there are so far."""
        return len(self._found)

    def add(self, at: At | None, sentence: str) -> None:
        """One more; the same one is told only once."""
        self.take(PipelineError(at, sentence))

    def take(self, problem: PipelineError) -> None:
        """One that somebody else has found."""
        self._found.setdefault(str(problem), problem)

    def raise_any(self, file: str) -> None:
        """PipelineErrors, by their lines, if there are any; those of other files come last."""
        if self._found:
            found = self._found.values()
            raise PipelineErrors(sorted(found, key=lambda problem: _order(problem, file)))


def _order(problem: PipelineError, file: str) -> tuple[bool, str, int]:
    at = problem.at
    return (False, "", 0) if at is None else (at.file != file, at.file, at.line)


def meant(word: str, names: Iterable[str], otherwise: str = ".") -> str:
    """How a sentence about an unknown word ends: with the nearest there is, or `otherwise`."""
    near = nearest(word, names)
    return otherwise if near is None else f": did you mean {near}?"


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that a word was probably meant to be."""
    lower = {name.lower(): name for name in names}
    close = get_close_matches(word.lower()[:_SHOWN_MAX], lower, 1, 0.6)
    return lower[close[0]] if close else None


def listed(names: Iterable[str], last: str = "and") -> str:
    """`a, b and c`."""
    *front, end = names
    return f"{', '.join(front)} {last} {end}" if front else end


def shown(text: str) -> str:
    """A text of the file for the middle of a sentence: on one line, and not too long."""
    line = " ".join(text.split())
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    if not line:
        return "an empty text"
    return line if len(line) <= _SHOWN_MAX else f"{line[: _SHOWN_MAX - 1]}…"
