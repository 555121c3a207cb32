"""What values a key accepts beyond its type. Each check names the problem or returns None."""

import re

from barnabas.config.keys import Check, Value


def at_least(minimum: int) -> Check:
    """A number not below `minimum`."""

    def check(value: Value) -> str | None:
        if isinstance(value, int | float) and value < minimum:
            return f"Value must be at least {minimum}"
        return None

    return check


def between(minimum: float, maximum: float) -> Check:
    """A number from `minimum` to `maximum`, both included."""

    def check(value: Value) -> str | None:
        if isinstance(value, int | float):
            if value < minimum:
                return f"Value must be at least {minimum}"
            if value > maximum:
                return f"Value must be no more than {maximum}"
        return None

    return check


def gzip_level(value: Value) -> str | None:
    """1 to 9, or -1 for the library's own choice."""
    if value == -1:
        return None
    return between(1, 9)(value)


def unlimited_or_positive(value: Value) -> str | None:
    """-1 for no limit, or at least 1."""
    if isinstance(value, int) and value != -1 and value < 1:
        return "Value must be unlimited (-1) or at least 1"
    return None


def one_of(*allowed: str) -> Check:
    """One of the given words."""

    def check(value: Value) -> str | None:
        return None if value in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def members_of(*allowed: str) -> Check:
    """A list, possibly empty, of different words from the given ones."""

    def check(value: Value) -> str | None:
        if not isinstance(value, tuple):
            return None
        if len(set(value)) != len(value):
            return "values must not be duplicated"
        if not set(value) <= set(allowed):
            return f"String must be one of: {', '.join(allowed)}"
        return None

    return check


def distinct_names(value: Value) -> str | None:
    """A list of at least one non-empty name, none of them twice."""
    if isinstance(value, tuple):
        if not value or not all(value):
            return "values must not be empty"
        if len(set(value)) != len(value):
            return "values must not be duplicated"
    return None


_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def throttled_replicas(value: Value) -> str | None:
    """`*`, or partition:broker pairs."""
    if not isinstance(value, tuple) or value == ("*",):
        return None
    if all(_REPLICA.fullmatch(entry) for entry in value):
        return None
    return "expected '*' or a list of [partitionId]:[brokerId]"
