"""`${NAME}` and `${NAME:-default}` in a pipeline file, from the environment."""

import re
from collections.abc import Mapping
from typing import Final

from barnabas.spark.pipelines.places import At, PipelineError, Text
from barnabas.spark.pipelines.problems import Problems

_REFERENCE: Final = re.compile(
    r"\$\$\{"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<otherwise>:-(?P<default>[^{}]*))?\}"
    r"|\$\{"
)


class UnsetError(PipelineError):
    """The file is as it should be, but its surroundings are not."""

    def __init__(self, at: At, name: str) -> None:
        super().__init__(
            at, f"variable {name} is not set: set it, or write ${{{name}:-default}} here."
        )


def fill(text: Text, environment: Mapping[str, str], problems: Problems) -> str | None:
    """The text with what the environment says; None, and a problem, for what it does not."""
    missing: set[str | None] = set()

    def replaced(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        name = found["name"]
        value = environment.get(name) if name is not None else None
        if found["otherwise"] is not None:
            # As shells have it: a default also stands in for a variable that is empty.
            return value or found["default"]
        if value is None and name not in missing:
            missing.add(name)
            at = text.at.below(text.value.count("\n", 0, found.start()))
            problems.take(PipelineError(at, _MALFORMED) if name is None else UnsetError(at, name))
        return value or ""

    filled = _REFERENCE.sub(replaced, text.value) if "${" in text.value else text.value
    return None if missing else filled


_MALFORMED: Final = (
    "${ begins a variable of the environment, as in ${NAME} and ${NAME:-default}: write $${ where "
    "these two letters are meant."
)
