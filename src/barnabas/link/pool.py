"""Links to the other brokers of a cluster: one to each, opened when it is first needed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from barnabas.link.aio import Link
from barnabas.link.exchange import Answer, Piece
from barnabas.link.reaching import reach
from barnabas.model.errors import DecodeError
from barnabas.wire.messages import decode_response, encode_request

_PATIENCE_S: Final = 30.0

Address = tuple[str, int]


class LinkPool:
    """Asks brokers by their number. What can not be asked, or is not answered, is an OSError."""

    def __init__(self, find: Callable[[int], Address | None], client_id: str) -> None:
        self._find = find
        self._client_id = client_id
        self._links: dict[Address, Link] = {}
        self._opening: dict[Address, asyncio.Task[Link]] = {}
        self._closed = False

    async def call(self, broker: int, api_key: int, version: int, request: Any) -> Any:
        """Ask in one version; request and answer are in their newest form."""
        body = encode_request(api_key, version, request)
        answer = await self.ask(broker, api_key, version, [body])
        try:
            return decode_response(api_key, version, answer.frame[answer.body_at :])
        except DecodeError as error:
            raise ConnectionError(
                f"broker {broker} answers what makes no sense: {error}"
            ) from error

    async def open(self, broker: int) -> None:
        """Make sure of a link: when this fails, nothing that is asked of the broker was sent."""
        await self._link(broker)

    async def ask(self, broker: int, api_key: int, version: int, body: Sequence[Piece]) -> Answer:
        """Send a request's body as it is; the answer as it came."""
        link = await self._link(broker)
        try:
            return await link.ask(api_key, version, body)
        except TimeoutError as error:
            # Whatever is wrong with it, the next question gets another one.
            await link.close()
            raise ConnectionError(f"broker {broker} does not answer") from error
        except DecodeError as error:
            raise ConnectionError(
                f"broker {broker} answers what makes no sense: {error}"
            ) from error

    async def _link(self, broker: int) -> Link:
        address = self._find(broker)
        if address is None or self._closed:
            raise ConnectionError(f"broker {broker} is not registered")
        link = self._links.get(address)
        if link is not None and link.is_open:
            return link
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(broker, address))
            self._opening[address] = opening
            opening.add_done_callback(lambda done: self._opened(address, done))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not opening.cancelled():
                raise  # It is who asks that was cancelled.
            raise ConnectionError(f"broker {broker} is asked nothing any more") from None

    async def _open(self, broker: int, address: Address) -> Link:
        link = await reach(broker, *address, client_id=self._client_id, timeout_s=_PATIENCE_S)
        for other in [each for each, old in self._links.items() if not old.is_open]:
            del self._links[other]
        self._links[address] = link
        return link

    def _opened(self, address: Address, opening: "asyncio.Task[Link]") -> None:
        self._opening.pop(address, None)
        if not opening.cancelled():
            opening.exception()  # Told to those who wait, of whom there may be none any more.

    async def close(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        for link in self._links.values():
            await link.close()
