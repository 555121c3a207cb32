"""Messages made up at random, for the tests that go over every API and version."""

import random
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from barnabas.model.errors import ErrorCode
from barnabas.wire.tolerant import field_type

MakeMessage = Callable[[Any, random.Random], Any]


def _random_message(entity_type: Any, rng: random.Random) -> Any:
    values: dict[str, Any] = {}
    for field in fields(entity_type):
        inner, is_array, is_nullable, is_entity = field_type(field)

        def one(inner: Any = inner, is_entity: bool = is_entity, field: Any = field) -> Any:
            if is_entity:
                return _random_message(inner, rng)
            return _random_primitive(field.metadata["kafka_type"], rng)

        # kio can not write null under a tag unless it is the default.
        may_be_null = is_nullable and ("tag" not in field.metadata or field.default is None)
        if may_be_null and rng.random() < 0.3:
            values[field.name] = None
        elif is_array:
            values[field.name] = tuple(one() for _ in range(rng.randint(0, 2)))
        else:
            values[field.name] = one()
    return entity_type(**values)


def _random_primitive(kafka_type: str, rng: random.Random) -> Any:
    choices: dict[str, Callable[[], Any]] = {
        "int8": lambda: rng.randint(-128, 127),
        "int16": lambda: rng.randint(-(2**15), 2**15 - 1),
        "int32": lambda: rng.choice((-1, 0, rng.randint(-(2**31), 2**31 - 1))),
        "int64": lambda: rng.choice((-1, 0, rng.randint(-(2**63), 2**63 - 1))),
        "uint16": lambda: rng.randint(0, 2**16 - 1),
        "float64": lambda: rng.choice((0.0, -1.5, 1e300)),
        "bool": lambda: rng.random() < 0.5,
        "string": lambda: rng.choice(("", "a", "topic-1", "ünïcode", "x" * 200)),
        "bytes": lambda: rng.randbytes(rng.choice((0, 1, 40))),
        "records": lambda: rng.randbytes(rng.choice((0, 1, 40))),
        "uuid": lambda: rng.choice((None, UUID(int=rng.getrandbits(128) | 1))),
        "error_code": lambda: rng.choice(list(ErrorCode)),
        "timedelta_i32": lambda: timedelta(milliseconds=rng.randint(-(2**31), 2**31 - 1)),
        "timedelta_i64": lambda: timedelta(milliseconds=rng.randint(-1, 2**45)),
        "datetime_i64": lambda: datetime.fromtimestamp(rng.randint(0, 2**31), UTC),
    }
    return choices[kafka_type]()


@pytest.fixture(scope="session")
def make_message() -> MakeMessage:
    """A function that makes up an instance of any of kio's dataclasses."""
    return _random_message
