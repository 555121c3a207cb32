"""Requests as dictionaries: what is left out has its default, or the zero of its type."""

import dataclasses
import datetime
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from barnabas.wire.messages import newest_type

_UNIONS: Final = (typing.Union, types.UnionType)


def request(api_key: int, body: Mapping[str, Any]) -> Any:
    """A request in its newest form."""
    return _build(newest_type(api_key, "request"), body)


def _build(cls: type[Any], values: Mapping[str, Any]) -> Any:
    arguments = {}
    for name, convert, zero in _fields(cls):  # type: ignore[arg-type]  # a class is hashable
        if name in values:
            arguments[name] = convert(values[name])
        elif zero is not dataclasses.MISSING:
            arguments[name] = zero
    return cls(**arguments)


@lru_cache(maxsize=256)
def _fields(cls: type[Any]) -> list[tuple[str, Callable[[Any], Any], Any]]:
    """Name, how to convert a value, and what stands for none (MISSING: the class knows)."""
    hints = typing.get_type_hints(cls)
    return [
        (
            each.name,
            _converter(hints[each.name]),
            _zero(hints[each.name]) if each.default is dataclasses.MISSING else dataclasses.MISSING,
        )
        for each in dataclasses.fields(cls)
    ]


def _converter(hint: Any) -> Callable[[Any], Any]:
    origin = typing.get_origin(hint)
    if origin in _UNIONS:
        (inner,) = (part for part in typing.get_args(hint) if part is not type(None))
        convert = _converter(inner)
        return lambda value: None if value is None else convert(value)
    if origin is tuple:
        each = _converter(typing.get_args(hint)[0])
        return lambda value: tuple(map(each, value))
    if dataclasses.is_dataclass(hint):
        return lambda value: _build(typing.cast("type[Any]", hint), value)
    if isinstance(hint, type) and issubclass(hint, datetime.timedelta):
        return lambda value: datetime.timedelta(milliseconds=value)
    return lambda value: value


def _zero(hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in _UNIONS:
        return None
    if origin is tuple:
        return ()
    if hint is bool:
        return False
    if isinstance(hint, type) and issubclass(hint, datetime.timedelta):
        return datetime.timedelta()
    for base, zero in ((int, 0), (str, ""), (bytes, b"")):
        if isinstance(hint, type) and issubclass(hint, base):
            return zero
    raise TypeError(f"no zero for {hint}")
