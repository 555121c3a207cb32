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
    brokers: int | None = None
    ensemble: int | None = None
    config: str | None = None
    log_level: str = "info"
    settings: list[str] = field(default_factory=list)


BROKERS_MAX: Final = 100
"""More than anybody has cores for, on one machine."""
ENSEMBLE_MAX: Final = 9
_MOST: Final = {"port": 65535, "brokers": BROKERS_MAX, "ensemble": ENSEMBLE_MAX}
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
FLAGS: Final[dict[str, dict[str, str]]] = {
    "up": {
        "--data": "data",
        "--host": "host",
        "--port": "port",
        "--memory": "memory",
        "--brokers": "brokers",
        "--ensemble": "ensemble",
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
        case "port" | "brokers" | "ensemble":
            least = 0 if name == "port" else 1
            if not (value.isascii() and value.isdigit() and least <= int(value) <= _MOST[name]):
                return False
            setattr(choices, name, int(value))
        case "log_level":
            if value not in LOG_LEVELS:
                return False
            choices.log_level = value
        case _:
            setattr(choices, name, value)
    return True
