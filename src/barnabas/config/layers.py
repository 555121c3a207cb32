"""A broker's start-up configuration from its sources: file, then environment, then flags."""

from collections.abc import Mapping
from typing import Final

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.keys import parse_value
from barnabas.model.errors import BarnabasError, KafkaError

ENVIRONMENT_PREFIX: Final = "BARNABAS_"


AT_HOME: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}
"""What a broker on a laptop or in a test does unlike one that is set up with a file: nobody waits
for three seconds because more members might come. Kafka's own sample configuration says the same.
"""


def load_broker_config(
    *,
    defaults: Mapping[str, str] | None = None,
    toml: str | None = None,
    toml_name: str = "barnabas.toml",
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Each source overrides those before it; `toml` is the text of the file `toml_name`.

    Raises BarnabasError with one sentence that says where the mistake is.
    """
    static: dict[str, str] = dict(defaults or {})
    if toml is not None:
        static |= _checked(toml_name, read_toml(toml, toml_name))
    static |= _checked("the environment", read_environment(environment or {}))
    static |= _checked("the flags", flags or {})
    try:
        return BrokerConfig(static)
    except KafkaError as error:
        raise BarnabasError(error.message) from error


def read_toml(text: str, name: str) -> dict[str, str]:
    """Keys by their full dotted names, whether written dotted, quoted or in tables."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BarnabasError(f"{name} is not valid TOML: {error}.") from error
    return dict(_flatten("", document, name))


def read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`BARNABAS_LOG_RETENTION_MS` is `log.retention.ms`; other variables are none of ours."""
    return {
        name[len(ENVIRONMENT_PREFIX) :].lower().replace("_", "."): text
        for name, text in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX)
    }


def _flatten(prefix: str, table: Mapping[str, object], name: str) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    for part, value in table.items():
        key = f"{prefix}{part}"
        if isinstance(value, dict):
            entries += _flatten(f"{key}.", value, name)
        else:
            entries.append((key, _toml_text(key, value, name)))
    return entries


def _toml_text(key: str, value: object, name: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    raise BarnabasError(
        f"{name}: {key} must be a string, a number, true, false or a list of strings."
    )


def _checked(place: str, entries: Mapping[str, str]) -> dict[str, str]:
    for name, text in entries.items():
        key = BROKER_KEYS.get(name)
        if key is None:
            raise BarnabasError(f"{place}: there is no broker key {name}{_nearest(name)}.")
        try:
            parse_value(key, text)
        except KafkaError as error:
            raise BarnabasError(f"{place}: {error.message}.") from error
    return dict(entries)


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, BROKER_KEYS, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}" if close else ""
