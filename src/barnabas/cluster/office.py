"""The office of controller: how it is taken, and that nobody writes in it who lost it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from barnabas.cluster import layout
from barnabas.cluster.errors import CHANGED_MEANWHILE, NotControllerError
from barnabas.ports.clock import Clock
from barnabas.ports.coordination import (
    BadVersionError,
    Check,
    Coordination,
    CoordinationLostError,
    Create,
    Op,
    SessionOverError,
    SetData,
)

_log = logging.getLogger(__name__)

RETRY_S: Final = 0.1
"""Between two attempts to reach the store."""


class Office:
    """Held by at most one broker at a time; each who takes it raises the epoch of the office, and
    every commit of the controller requires that it is still the same."""

    def __init__(
        self, coordination: Coordination, node_id: int, clock: Clock, *, contested: bool = True
    ) -> None:
        """`contested`: other brokers could hold it as well."""
        self._level = logging.INFO if contested else logging.DEBUG
        self._coordination = coordination
        self._node_id = node_id
        self._clock = clock
        self._epoch_version = -1
        self._last_commit = -1
        self._commits = 0
        self.epoch = 0
        self.held = False
        self.closed = False

    async def run_for(self) -> bool:
        """Take the office if it is vacant; whether this broker holds it now."""
        holder = await self._coordination.get(layout.CONTROLLER)
        if holder is None:
            self.resign()
            await self._take()
        elif holder.owner != self._coordination.session:
            self.resign()
        elif not self.held:
            await self._enter()  # The answer to taking it was lost.
        return self.held

    def resign(self) -> None:
        """Write nothing as controller any more."""
        if self.held:
            _log.log(self._level, "Broker %d is the controller no more.", self._node_id)
        self.held = False

    def require(self) -> None:
        """Raise unless this broker is the controller, as far as it knows."""
        if not self.held:
            raise NotControllerError

    async def commit(self, operations: Sequence[Op]) -> None:
        """As the store's commit, and only as the controller; returns when it is known to be done.

        NotControllerError: another broker is, or nobody can tell; it may have been done.
        CoordinationError: it was refused, and nothing was done.
        """
        self.require()
        self._commits += 1
        mark = f"{self._node_id}-{self.epoch}-{self._commits}".encode()
        guarded = [
            Check(layout.CONTROLLER_EPOCH, self._epoch_version),
            SetData(layout.LAST_COMMIT, mark, self._last_commit),
            *operations,
        ]
        while not await self._attempt(guarded, mark):
            self.require()
        self._last_commit += 1

    async def _attempt(self, guarded: Sequence[Op], mark: bytes) -> bool:
        """Whether it is done; False: it is not, and may be tried again."""
        try:
            await self._coordination.commit(*guarded)
        except SessionOverError as error:
            self.resign()
            raise NotControllerError from error
        except CoordinationLostError:
            return await self._find_out(mark)
        except BadVersionError:
            # Perhaps an earlier attempt was done after all; perhaps this term is over.
            if await self._find_out(mark):
                return True
            raise
        return True

    async def _find_out(self, mark: bytes) -> bool:
        """Whether the commit was done that would have left this mark."""
        while True:
            try:
                await self._coordination.sync()
                epoch = await self._coordination.get(layout.CONTROLLER_EPOCH)
                last = await self._coordination.get(layout.LAST_COMMIT)
            except SessionOverError as error:
                self.resign()
                raise NotControllerError from error
            except CoordinationLostError as error:
                if self.closed:
                    raise NotControllerError from error
                await asyncio.sleep(RETRY_S)
                continue
            if epoch is None or last is None or epoch.version != self._epoch_version:
                self.resign()
                raise NotControllerError
            return last.data == mark

    async def _take(self) -> None:
        epoch = await self._coordination.get(layout.CONTROLLER_EPOCH)
        term = str(layout.decode_controller_epoch(epoch.data) + 1 if epoch else 1).encode()
        holder = layout.encode_controller(self._node_id, self._clock.wall_ms())
        try:
            await self._coordination.commit(
                Create(layout.CONTROLLER, holder, ephemeral=True),
                SetData(layout.CONTROLLER_EPOCH, term, epoch.version)
                if epoch
                else Create(layout.CONTROLLER_EPOCH, term),
            )
        except CHANGED_MEANWHILE:
            # Somebody was faster. What was read may also be old: the next attempt shall not be.
            await self._coordination.sync()
        else:
            await self._enter()

    async def _enter(self) -> None:
        """From here on no commit of an earlier controller can be done, so what is read is final."""
        await self._coordination.sync()
        epoch = await self._coordination.get(layout.CONTROLLER_EPOCH)
        last = await self._coordination.get(layout.LAST_COMMIT)
        holder = await self._coordination.get(layout.CONTROLLER)
        if epoch is None or last is None or holder is None:
            return
        if holder.owner == self._coordination.session:
            self.epoch = layout.decode_controller_epoch(epoch.data)
            self._epoch_version = epoch.version
            self._last_commit = last.version
            self.held = True
            _log.log(
                self._level, "Broker %d is the controller, for term %d.", self._node_id, self.epoch
            )
