"""The arguments of `up` and `broker` without typer: all that is needed to start a broker fast.

Whatever is not plainly right (help, a typo, a missing value) is left to typer, which knows how to
say so. Both ways end in the same `Choices`.
"""

from dataclasses import dataclass, field
from typing import Final


@dataclass(slots=True)
class Choices:
    """What the person at the terminal chose; None and empty mean: not said."""

    data: str | None = None
    host: str | None = None
    port: int | None = None
    memory: bool = False
    config: str | None = None
    log_level: str = "info"
    settings: list[str] = field(default_factory=list)


LOG_LEVELS: Final = ("debug", "info", "warning", "error")
FLAGS: Final[dict[str, dict[str, str]]] = {
    "up": {
        "--data": "data",
        "--host": "host",
        "--port": "port",
        "--memory": "memory",
        "--set": "settings",
        "--log-level": "log_level",
    },
    "broker": {"--config": "config", "--set": "settings", "--log-level": "log_level"},
}
"""Which flags a command has, and which of the choices each sets."""


def parse(arguments: list[str]) -> Choices | None:
    """The choices of `up …` or `broker …`, or None when typer should have a look."""
    command, *rest = arguments
    choices, flags = Choices(), FLAGS[command]
    words = iter(rest)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag not in flags:
            return None
        if flag == "--memory":
            if equals:
                return None
            choices.memory = True
            continue
        given = value if equals else next(words, None)
        if given is None or not _take(choices, flags[flag], given):
            return None
    return choices if command == "up" or choices.config is not None else None


def _take(choices: Choices, name: str, value: str) -> bool:
    match name:
        case "settings":
            choices.settings.append(value)
        case "port":
            if not (value.isascii() and value.isdigit() and int(value) <= 65535):
                return False
            choices.port = int(value)
        case "log_level":
            if value not in LOG_LEVELS:
                return False
            choices.log_level = value
        case _:
            setattr(choices, name, value)
    return True
