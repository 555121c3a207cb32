"""What a configuration key is, and how its text becomes a value and a value its text."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

from barnabas.model.errors import ErrorCode, KafkaError

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value. Lists are tuples; None means "not set, and nothing is the default"."""

Check = Callable[[Value], str | None]
"""Says what is wrong with a parsed value, or None."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigType(IntEnum):
    """The types of DescribeConfigs, with their numbers on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers of DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class Update(Enum):
    """Whether a key may be changed while brokers run, and for how many of them at once."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(Enum):
    """How soon a reader of the documentation should meet the key."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key that supplies a topic key's value, times `factor` (hours to milliseconds)."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One row of the tables in `topic_keys` and `broker_keys`."""

    name: str
    type: ConfigType
    default: Value
    doc: str
    check: Check | None = None
    importance: Importance = Importance.MEDIUM
    update: Update = Update.READ_ONLY
    synonyms: tuple[Synonym, ...] = ()
    """For a topic key: the broker keys that supply it, the first that is set wins."""
    refusal: str | None = None
    """Why no other value than the default can be honoured yet."""
    internal: bool = False
    """Accepted, but not shown by DescribeConfigs."""

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD


_WHOLE = re.compile(r"[+-]?0*[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_COMMA = re.compile(r"\s*,\s*")
_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def broker_key(
    name: str,
    type_: ConfigType,
    default: Value,
    doc: str,
    check: Check | None = None,
    *,
    update: Update = Update.READ_ONLY,
    importance: Importance = Importance.MEDIUM,
) -> Key:
    """For lists of keys, of which most say no more than this."""
    return Key(
        name=name,
        type=type_,
        default=default,
        doc=doc,
        check=check,
        update=update,
        importance=importance,
    )


def invalid(name: str, shown: object, problem: str) -> KafkaError:
    """The error for a value that can not be used, in Kafka's form."""
    return KafkaError(
        ErrorCode.invalid_config, f"Invalid value {shown} for configuration {name}: {problem}"
    )


def parse_value(key: Key, text: str) -> Value:
    """The typed value of `text`, or KafkaError INVALID_CONFIG that says what is wrong with it."""
    value = _parse_type(key, text)
    problem = key.check(value) if key.check else None
    if problem is None and key.refusal is not None and value != key.default:
        problem = key.refusal
    if problem is not None:
        raise invalid(key.name, "[hidden]" if key.sensitive else text, problem)
    return value


def format_value(value: Value) -> str | None:
    """The text of a value as DescribeConfigs shows it; parses back to the same value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _format_double(value)
    return str(value)


def _parse_type(key: Key, text: str) -> Value:
    trimmed = text.strip()
    match key.type:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise invalid(key.name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            return _parse_whole(key, text, trimmed)
        case ConfigType.DOUBLE:
            if not _DECIMAL.fullmatch(trimmed):
                raise invalid(key.name, text, "Not a number of type DOUBLE")
            return float(trimmed)
        case ConfigType.LIST:
            return tuple(_COMMA.split(trimmed)) if trimmed else ()
        case _:
            return trimmed


def _parse_whole(key: Key, text: str, trimmed: str) -> int:
    if _WHOLE.fullmatch(trimmed):
        number = int(trimmed)
        bound = 1 << (_BITS[key.type] - 1)
        if -bound <= number < bound:
            return number
    raise invalid(key.name, text, f"Not a number of type {key.type.name}")


def _format_double(value: float) -> str:
    """As Java prints it, because that is what every Kafka tool shows."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits = next(n for n in range(1, 18) if float(f"{value:.{n}e}") == value)
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}E{int(exponent)}"
