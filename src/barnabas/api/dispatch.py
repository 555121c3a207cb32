"""From a frame to a handler and back: header, table row, decode, handle, encode."""

import importlib
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any, Final

from barnabas.api import fetch, produce
from barnabas.api.context import Call, Services
from barnabas.api.forwarding import FORWARDED, FORWARDER, forwarded
from barnabas.api.produce import handle_in_lane
from barnabas.api.produce_lane import correlation_id_of
from barnabas.api.table import SERVED
from barnabas.model.errors import DecodeError
from barnabas.ports.exchange import Frames, Later, Peer, Reply
from barnabas.wire.headers import RequestHeader, parse_request_header, response_header
from barnabas.wire.messages import decode_request, encode_response

_PRODUCE: Final = 0
_FETCH: Final = 1
_API_VERSIONS: Final = 18

RawHandler = Callable[[Services, Peer, RequestHeader, memoryview], Reply]
MessageHandler = Callable[[Call, Any], Any]


class Dispatcher:
    """Answers frames; handed to the listener as its `dispatch`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._raw: dict[int, RawHandler] = {_PRODUCE: produce.handle, _FETCH: fetch.handle}
        self._messages: dict[int, tuple[MessageHandler, bool]] = {}

    def __call__(self, peer: Peer, frame: memoryview) -> Reply:
        """One request. Raises DecodeError for what can not be answered: the connection closes."""
        lane = peer.state
        if lane is not None and lane.generation == self._services.replicas.generation:
            records = lane.records(frame)
            if records is not None:
                return handle_in_lane(self._services, lane, correlation_id_of(frame), records)
        header = parse_request_header(frame)
        key = header.api_key
        raw = self._raw.get(key)
        if raw is not None and header.body_at >= 0:
            return raw(self._services, peer, header, frame)
        if key not in SERVED:
            raise DecodeError(f"there is no API {key} here")
        if header.body_at < 0:
            return self._answer_unspoken_version(header)
        if (
            key in FORWARDED
            and not self._services.cluster.is_controller
            and header.client_id != FORWARDER
        ):
            here = partial(self._handle_here, peer, header)
            return Later(forwarded(self._services, header, frame, here), overlaps=False)
        return self._handle_message(peer, header, frame)

    async def _handle_here(self, peer: Peer, header: RequestHeader, frame: memoryview) -> Frames:
        reply = self._handle_message(peer, header, frame)
        answer = await reply.coroutine if isinstance(reply, Later) else reply
        return answer or []

    def _handle_message(self, peer: Peer, header: RequestHeader, frame: memoryview) -> Reply:
        handler, only_waits = self._message_handler(header.api_key)
        request = decode_request(header.api_key, header.api_version, frame[header.body_at :])
        response = handler(Call(self._services, peer, header), request)
        if isawaitable(response):
            return Later(_finish(header, response), overlaps=False, only_waits=only_waits)
        return _encode(header, response)

    def _message_handler(self, key: int) -> tuple[MessageHandler, bool]:
        """The handler, and whether its answer is of no use when its asker has gone.

        A module says so by `ONLY_WAITS = True`: what was asked for is done already when the
        wait begins.
        """
        found = self._messages.get(key)
        if found is None:
            module = importlib.import_module(f"barnabas.api.{SERVED[key]}")
            found = self._messages[key] = module.handle, getattr(module, "ONLY_WAITS", False)
        return found

    def _answer_unspoken_version(self, header: RequestHeader) -> Frames:
        """KIP-511: a client that speaks a newer ApiVersions is told our range, in version 0."""
        if header.api_key != _API_VERSIONS:
            raise DecodeError(
                f"API {header.api_key} is not spoken in version {header.api_version} here"
            )
        module = importlib.import_module("barnabas.api.api_versions")
        plain = header._replace(api_version=0)
        return _encode(plain, module.unsupported_version())


async def _finish(header: RequestHeader, response: Awaitable[Any]) -> Frames:
    return _encode(header, await response)


def _encode(header: RequestHeader, response: Any) -> Frames:
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    return [head, encode_response(header.api_key, header.api_version, response)]
