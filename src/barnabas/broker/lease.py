"""Keeps up to date whether this broker is in touch with the cluster's store.

A clock is read when the lease would end, and then to see whether it is back: not by requests.
"""

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import Final

from barnabas.cluster.service import Cluster

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.1
"""While out of touch; and the least that a look ahead is worth."""


class LeaseKeeping:
    """Looks when the lease runs out, and tells when it is lost and when it is back."""

    def __init__(self, cluster: Cluster, told: Callable[[bool], None]) -> None:
        self._cluster = cluster
        self._tell = told
        self._held: bool | None = None
        """None: nobody was told yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Begin; this broker has joined."""
        self._cluster.on_session_event(self._look)
        self._look()

    def _look(self) -> None:
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        left_s = self._cluster.lease_left_s()
        held = left_s > 0
        if held != self._held:
            was_held, self._held = self._held, held
            if held and was_held is not None:
                logger.warning("In touch with the cluster's store again: this broker goes on.")
            elif not held:
                logger.warning(
                    "Out of touch with the cluster's store: this broker acknowledges nothing that "
                    "other replicas could take over, until it is back. See whether ZooKeeper runs "
                    "and can be reached."
                )
            self._tell(held)
        if left_s < inf:
            wait_s = max(left_s, _LOOK_S) if held else _LOOK_S
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._look)

    def close(self) -> None:
        """Look no more, whatever happens to the session."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
