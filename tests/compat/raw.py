"""Plain requests to a broker: dictionaries in, dictionaries out, one blocking socket.

Fields are named as in kio's messages. What a request leaves out takes its default, or the zero of
its type; what a version does not know is left out, so one scenario can be asked at every version.
"""

import dataclasses
import datetime
import importlib
import io
import socket
import struct
import types
import typing
import uuid
from enum import Enum
from typing import Any, Final, Self

from kio.serial import entity_reader, entity_writer
from tests.compat.batches import summary

Plain = dict[str, Any]
WAIT_S: Final = 30.0
_UNIONS: Final = (typing.Union, types.UnionType)


class ConnectionGone(Exception):  # noqa: N818 - the peer's way of saying no, not a fault
    """The broker closed the connection instead of answering."""


class RawConnection:
    """One connection; requests are answered one at a time."""

    def __init__(self, bootstrap: str, client_id: str = "probe", wait_s: float = WAIT_S) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=wait_s)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, api: str, version: int, body: Plain) -> Plain:
        """Send a request of kio's message `api` and return the answer as a dictionary."""
        request = message_type(api, version, "request")
        response = message_type(api, version, "response")
        self.send(self.frame(request, body))
        return self._decode(response, self.receive())

    def tell(self, api: str, version: int, body: Plain) -> None:
        """Send a request that has no answer (Produce with acks=0)."""
        self.send(self.frame(message_type(api, version, "request"), body))

    def frame(self, request: type[Any], body: Plain) -> bytes:
        """A request with its header, without the length in front."""
        self._correlation_id += 1
        header_type = request.__header_schema__
        header = from_plain(
            header_type,
            {
                "request_api_key": request.__api_key__,
                "request_api_version": request.__version__,
                "correlation_id": self._correlation_id,
                "client_id": self._client_id,
            },
        )
        out = io.BytesIO()
        entity_writer(header_type)(out, header)
        entity_writer(request)(out, from_plain(request, body))
        return out.getvalue()

    def send(self, frame: bytes) -> None:
        """Send a frame with its length in front."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes:
        """The next frame, without its length."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self._socket.recv(count - len(parts))
            except ConnectionResetError as error:
                raise ConnectionGone from error
            if not part:
                raise ConnectionGone
            parts += part
        return bytes(parts)

    def _decode(self, response: type[Any], frame: bytes) -> Plain:
        header_type = response.__header_schema__
        header, at = entity_reader(header_type)(frame, 0)
        if header.correlation_id != self._correlation_id:
            raise AssertionError(
                f"answer to {header.correlation_id}, not to {self._correlation_id}"
            )
        answer, size = entity_reader(response)(frame, at)
        if at + size != len(frame):
            raise AssertionError(f"{len(frame) - at - size} bytes after the answer")
        plain: Plain = to_plain(answer)
        return plain


def message_type(api: str, version: int, kind: str) -> type[Any]:
    """kio's class of a request or a response."""
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
    name = "".join(word.capitalize() for word in api.split("_")) + kind.capitalize()
    cls: type[Any] = getattr(module, name)
    return cls


def versions(api: str) -> range:
    """Every version of a message that kio knows."""
    package = importlib.import_module(f"kio.schema.{api}")
    numbers = sorted(
        int(entry.name[1:])
        for path in package.__path__
        for entry in _directories(path)
        if entry.name[1:].isdigit()
    )
    return range(numbers[0], numbers[-1] + 1)


def _directories(path: str) -> list[Any]:
    from pathlib import Path

    return [entry for entry in Path(path).iterdir() if entry.is_dir()]


def from_plain(cls: type[Any], values: Plain) -> Any:
    """Build a message from a dictionary; see the module's words on what may be left out."""
    hints = typing.get_type_hints(cls)
    arguments = {}
    for field in dataclasses.fields(cls):
        if field.name in values:
            arguments[field.name] = _value(hints[field.name], values[field.name])
        elif field.default is dataclasses.MISSING:
            arguments[field.name] = _zero(hints[field.name])
    return cls(**arguments)


def _value(hint: Any, value: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in _UNIONS:
        present = [part for part in typing.get_args(hint) if part is not type(None)]
        return None if value is None else _value(present[0], value)
    if origin is tuple:
        return tuple(_value(typing.get_args(hint)[0], item) for item in value)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return from_plain(typing.cast("type[Any]", hint), value)
    if isinstance(hint, type) and issubclass(hint, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    if hint is uuid.UUID and isinstance(value, str):
        return uuid.UUID(value)
    return value


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
    for base, zero in ((int, 0), (str, ""), (bytes, b""), (float, 0.0)):
        if isinstance(hint, type) and issubclass(hint, base):
            return zero
    raise TypeError(f"no zero for {hint}")


def to_plain(value: Any) -> Any:
    """The message as JSON-like data: errors by name, times in milliseconds, batches summed up."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.name.upper()
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return summary(bytes(value))
    return value
