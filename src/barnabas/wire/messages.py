"""Every message but Produce and Fetch: bytes of any version to one dataclass, and back.

Whoever handles a message sees its newest form only, whatever version is on the wire: kio's
dataclass of the newest version that is spoken, or the one in `barnabas.wire.shapes` that extends
it. Schemas load on first use, because all of them together take seconds.
"""

import io
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import IO, Any, Final, Literal

from barnabas.model import limits
from barnabas.model.check import require
from barnabas.model.errors import DecodeError
from barnabas.wire.apis import APIS
from barnabas.wire.primitives import Readable
from barnabas.wire.reshape import RESHAPES
from barnabas.wire.tolerant import EntityType, read_message
from barnabas.wire.versions import convert

Side = Literal["request", "response"]

_EXTENDED: Final[frozenset[tuple[int, Side]]] = frozenset(
    {
        (3, "request"),
        (3, "response"),
        (8, "request"),
        (8, "response"),
        (9, "request"),
        (9, "response"),
        (15, "response"),
        (57, "response"),
        (69, "response"),
    }
)
"""The messages whose newest form is a class of `barnabas.wire.shapes`, of the same name."""

_TAGGED: Final[frozenset[tuple[int, Side]]] = frozenset({(15, "response"), (69, "response")})
"""Those whose newest version goes over the wire in that form: it adds tagged fields only."""


def decode_request(api_key: int, version: int, body: Readable) -> Any:
    """A request in its newest form; DecodeError for whatever is wrong with the bytes."""
    if len(body) > limits.MESSAGE_BYTES_MAX:
        raise DecodeError(f"a request of {len(body)} bytes that carries no records")
    return _decode(api_key, version, "request", body)


def decode_response(api_key: int, version: int, body: Readable) -> Any:
    """A response in its newest form; DecodeError for whatever is wrong with the bytes."""
    return _decode(api_key, version, "response", body)


def encode_request(api_key: int, version: int, request: Any) -> bytes:
    """A request in its newest form (or its version's own), as bytes of `version`."""
    return _encode(api_key, version, "request", request)


def encode_response(api_key: int, version: int, response: Any) -> bytes:
    """A response in its newest form (or its version's own), as bytes of `version`.

    What the version can not say is left out; null where it has none becomes empty.
    """
    return _encode(api_key, version, "response", response)


@cache
def newest_type(api_key: int, side: Side) -> type[Any]:
    """The class in which handlers see a message."""
    newest = _kio_type(api_key, APIS[api_key].max_version, side)
    return _extended(api_key, newest) if (api_key, side) in _EXTENDED else newest


def _extended(api_key: int, newest: type[Any]) -> type[Any]:
    shapes = import_module(f"barnabas.wire.shapes.{APIS[api_key].name}")
    extended: type[Any] = getattr(shapes, newest.__name__)
    return extended


@cache
def version_type(api_key: int, version: int, side: Side) -> type[Any]:
    """The class of a message at one version: what is really on the wire. Mostly kio's."""
    api = APIS.get(api_key)
    require(api is not None and api.speaks(version), f"API {api_key} v{version} is not spoken")
    found = _kio_type(api_key, version, side)
    if (api_key, side) in _TAGGED and version == APIS[api_key].max_version:
        return _extended(api_key, found)
    return found


def _kio_type(api_key: int, version: int, side: Side) -> type[Any]:
    module = import_module(f"kio.schema.{APIS[api_key].name}.v{version}.{side}")
    (found,) = (
        kind
        for kind in vars(module).values()
        if is_dataclass(kind)
        and isinstance(kind, type)
        and kind.__module__ == module.__name__
        and getattr(kind, "__type__").name == side  # noqa: B009
    )
    return found


def _decode(api_key: int, version: int, side: Side, body: Readable) -> Any:
    raw = read_message(version_type(api_key, version, side), bytes(body))
    newest = convert(raw, newest_type(api_key, side))
    reshape = RESHAPES.get((api_key, side))
    if reshape is not None and version <= reshape.until:
        return reshape.up(raw, newest)
    return newest


def _encode(api_key: int, version: int, side: Side, message: Any) -> bytes:
    target: EntityType = version_type(api_key, version, side)
    if type(message) is not target:
        newest = message
        message = convert(newest, target)
        reshape = RESHAPES.get((api_key, side))
        if reshape is not None and version <= reshape.until:
            message = reshape.down(newest, message)
    buffer = io.BytesIO()
    _writer(target)(buffer, message)
    return buffer.getvalue()


@cache
def _writer(entity_type: EntityType) -> Callable[[IO[bytes], Any], None]:
    from kio.serial import entity_writer

    return entity_writer(entity_type)
