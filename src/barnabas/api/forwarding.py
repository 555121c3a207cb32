"""What only the controller decides is handed on to it, byte for byte, by whichever broker is asked.

So every client works, whether it knows of controllers or not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from barnabas.api.context import Services
from barnabas.link.exchange import Answer
from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.ports.exchange import Frames
from barnabas.wire.headers import RequestHeader, response_header
from barnabas.wire.messages import decode_response

FORWARDED: Final = frozenset({19, 20, 33, 37, 43, 44, 45, 46})
"""CreateTopics, DeleteTopics, AlterConfigs, CreatePartitions, ElectLeaders,
IncrementalAlterConfigs, AlterPartitionReassignments and ListPartitionReassignments."""

FORWARDER: Final = "barnabas-forwarded"
"""How a broker calls itself that hands something on: it is not handed on once more."""

_PATIENCE_S: Final = 10.0
"""For a controller to be elected."""
_LOOK_S: Final = 0.1

Here = Callable[[memoryview], Awaitable[Frames]]


def forwarded(
    services: Services, header: RequestHeader, frame: memoryview, here: Here
) -> Coroutine[Any, Any, Frames]:
    """The controller's answer; or that of `here`, which is handed the frame when this broker has
    become the controller, or nobody has. The frame is copied: it is used again for the next
    request."""
    return _forwarded(services, header, memoryview(bytes(frame)), here)


async def _forwarded(
    services: Services, header: RequestHeader, frame: memoryview, here: Here
) -> Frames:
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE_S
    while loop.time() < until and not services.cluster.is_controller:
        image = services.cluster.image
        controller = image.controller_id
        if controller in image.brokers and controller != services.node_id:
            answer = await _asked(services, controller, header, frame[header.body_at :])
            if answer is not None:
                head = response_header(header.api_key, header.api_version, header.correlation_id)
                return [head, answer]
        await asyncio.sleep(_LOOK_S)
    return await here(frame)


async def _asked(
    services: Services, controller: int, header: RequestHeader, body: memoryview
) -> memoryview | None:
    """Its answer; None: it could not be asked, or is the controller no more."""
    try:
        await services.links.open(controller)
    except OSError:
        return None
    try:
        answer = await services.links.ask(controller, header.api_key, header.api_version, [body])
    except OSError as error:
        # It may have been done: who has asked must find out, and asks again.
        raise DecodeError(
            f"the controller, broker {controller}, did not answer: {error}"
        ) from error
    return None if _says_not_controller(header, answer) else answer.frame[answer.body_at :]


def _says_not_controller(header: RequestHeader, answer: Answer) -> bool:
    response = decode_response(header.api_key, header.api_version, answer.frame[answer.body_at :])
    return ErrorCode.not_controller in _codes(response)


def _codes(message: Any) -> Iterator[ErrorCode]:
    """Every error code in an answer."""
    for each in fields(message):
        value = getattr(message, each.name)
        if isinstance(value, ErrorCode):
            yield value
        for part in value if isinstance(value, tuple) else ():
            if is_dataclass(part):
                yield from _codes(part)
