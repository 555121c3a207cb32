"""Carries a message from one version's dataclass to another's, field by field, by name.

Kafka gives a field the same name in every version that has it, so names are enough: a field that
only the target has takes its default, a field that only the source has is dropped. Where a
version says the same thing in another form, `barnabas.wire.reshape` follows.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from barnabas.wire.tolerant import EntityType, field_type, zero_value

Convert = Callable[[Any], Any]


def convert(source: Any, target_type: EntityType) -> Any:
    """`source` as an instance of `target_type`; itself where it is one already."""
    if type(source) is target_type:
        return source
    source_type: EntityType = type(source)
    return _converter(source_type, target_type)(source)


@cache
def _converter(source_type: EntityType, target_type: EntityType) -> Convert:
    present = {field.name for field in fields(source_type)}
    absent = {}
    steps: list[tuple[str, Convert]] = []
    for field in fields(target_type):
        if field.name not in present:
            absent[field.name] = zero_value(field)
            continue
        inner, is_array, is_nullable, is_entity = field_type(field)
        instead = None if is_nullable else zero_value(field)
        steps.append((field.name, _step(inner if is_entity else None, is_array, instead)))

    def converter(source: Any) -> Any:
        values = absent.copy()
        for name, step in steps:
            values[name] = step(getattr(source, name))
        return target_type(**values)

    return converter


def _step(entity_type: EntityType | None, is_array: bool, instead: Any) -> Convert:
    """How one field is carried over. Null becomes `instead`, which is None where null may be."""
    if entity_type is None:
        return lambda value: instead if value is None else value
    if is_array:
        return lambda value: (
            instead if value is None else tuple(convert(element, entity_type) for element in value)
        )
    return lambda value: instead if value is None else convert(value, entity_type)
