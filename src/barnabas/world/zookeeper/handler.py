"""kazoo's threads and sockets, as far as they have to be other than kazoo would have them."""

import select
import time
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads and sockets, with a say in whether and how long it may connect."""

    def __init__(self, session_timeout_s: float, servers: int) -> None:
        super().__init__()
        self.tried_s = time.monotonic()
        self.sleep_func = self._rest
        # A server that swallows everything must leave time to try the others.
        self._connect_s = session_timeout_s / max(3, 1 + servers)
        self._forbidden = False

    def _rest(self, seconds: float) -> None:
        """Between two attempts, of which some do not come as far as a connection (no such name)."""
        self.tried_s = time.monotonic()
        time.sleep(seconds)

    def forbid(self) -> None:
        """No connection from now on."""
        self._forbidden = True

    def select(
        self, readers: list[Any], writers: list[Any], _others: list[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As kazoo's own, which makes an epoll descriptor each time, three times a request."""
        waiting = select.poll()
        sockets = {}
        for flag, group in ((select.POLLIN, readers), (select.POLLOUT, writers)):
            for each in group:
                sockets[each.fileno()] = each
                waiting.register(each, flag)
        ready = waiting.poll(None if timeout is None else max(0, timeout) * 1000)
        found = [sockets[number] for number, _ in ready]
        return (
            [each for each in found if each in readers],
            [each for each in found if each in writers],
            [],
        )

    def create_connection(self, *arguments: object, **options: Any) -> Any:
        """What kazoo calls for each attempt."""
        self.tried_s = time.monotonic()
        if self._forbidden:
            raise ConnectionRefusedError("this session is over")
        options["timeout"] = min(options.get("timeout", self._connect_s), self._connect_s)
        return super().create_connection(*arguments, **options)
