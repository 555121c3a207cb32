"""A broker's place among the others: its registration, which ends with its session."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from barnabas.cluster import layout
from barnabas.cluster.announcements import Announcement
from barnabas.cluster.errors import CHANGED_MEANWHILE
from barnabas.cluster.image import BrokerNode
from barnabas.model.errors import BarnabasError
from barnabas.ports.clock import Clock
from barnabas.ports.coordination import (
    Coordination,
    CoordinationError,
    CoordinationLostError,
    Create,
    Delete,
    Node,
    Op,
    SetData,
)

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
"""How often it is looked whether a registration of the same number has gone."""

_DISTRUST_S: Final = 2.0
"""Others wait for the end of this session."""

_NO_DIRECTORY: Final = ""


class Membership:
    """Registers one broker, again for each session."""

    def __init__(
        self, coordination: Coordination, clock: Clock, node: BrokerNode, directory: str
    ) -> None:
        self._coordination = coordination
        self._clock = clock
        self._directory = directory
        self._path = layout.broker_path(node.id)
        self._life_path = layout.life_path(node.id)
        self._attempted_in = 0
        self._leaving = False
        self.node = node
        """As it is registered now, or was last."""

    async def is_new_directory(self) -> bool:
        """Whether this broker kept its logs elsewhere before: then it has lost them all.

        Raises BarnabasError when the directory is another broker's.
        """
        for name in await self._coordination.children(layout.LIVES):
            number = layout.broker_number(layout.LIVES, name)
            path = layout.life_path(number)
            life = await self._coordination.get(path)
            known = layout.decode_life(path, life.data) if life else None
            if number == self.node.id:
                if known is not None and known != self._directory:
                    return True
            elif known == self._directory:
                raise BarnabasError(
                    f"This data directory belongs to broker {name}, and this is broker "
                    f"{self.node.id}; start it with node.id={name}."
                )
        return False

    async def retire(self) -> None:
        """End what is left of this broker's former life: nobody counts on it any more.

        Which directory that life had stays as it is stored until this one registers: whatever is
        cut off in between, a new directory is found to be new again.
        """
        while True:
            found = await self._coordination.get(self._path)
            if found is not None and self._is_own(found):
                return  # It has ended: this life has registered, and the answer was lost.
            ending = await self._end_of(found)
            if ending is None:
                continue
            try:
                await self._coordination.commit(*ending, await self._end_of_life())
            except CHANGED_MEANWHILE:
                await self._coordination.sync()
            else:
                return

    async def register(self) -> BrokerNode:
        """Make this broker one of the live ones, in this session.

        Raises BarnabasError when another is registered under its number and does not go.
        """
        session = self._coordination.session
        while True:
            found = await self._coordination.get(self._path)
            if found is not None and self._is_own(found):
                # Registered by an attempt whose answer was lost, or before.
                self.node = layout.decode_broker(self.node.id, found.data, found.created)
                return self.node
            ending = await self._end_of(found)
            if ending is None:
                continue
            life = await self._next_life()
            number = life.version + 1 if isinstance(life, SetData) else 0
            node = replace(self.node, life=number, leaving=self._leaving)
            data = layout.encode_broker(node, self._clock.wall_ms(), self._directory)
            self._attempted_in = session
            with suppress(*CHANGED_MEANWHILE):  # Somebody has changed one of these; look again.
                await self._coordination.commit(
                    *ending,
                    life,
                    Create(self._path, data, ephemeral=True),
                    Announcement(brokers=True).operation(),
                )
            await self._coordination.sync()

    async def announce_leaving(self) -> None:
        """Say that this broker is about to stop, in this session and any that follows."""
        self._leaving = True
        while True:
            found = await self._coordination.get(self._path)
            if found is None or found.owner != self._coordination.session:
                return
            if layout.decode_broker(self.node.id, found.data).leaving:
                return
            node = replace(self.node, leaving=True)
            data = layout.encode_broker(node, self._clock.wall_ms(), self._directory)
            try:
                await self._coordination.commit(
                    SetData(self._path, data, found.version),
                    Announcement(brokers=True).operation(),
                )
            except CHANGED_MEANWHILE:
                await self._coordination.sync()

    async def distrust(self) -> None:
        """What the directory holds may be less than it was: the next life shall begin like that of
        one which has lost its directory. A disk that has failed may not be able to say so."""
        try:
            async with asyncio.timeout(_DISTRUST_S):
                life = await self._coordination.get(self._life_path)
                if life is not None:
                    data = layout.encode_life(_NO_DIRECTORY)
                    await self._coordination.commit(SetData(self._life_path, data, life.version))
        except (CoordinationError, CoordinationLostError, TimeoutError) as error:
            _log.warning("That the disk has failed could not be stored: %r", error)

    async def is_confirmed(self) -> bool:
        """Whether this broker is registered in its session, after seeing to that if nobody is.

        False: another process is, in its place.
        """
        found = await self._coordination.get(self._path)
        if found is not None and found.owner != self._coordination.session:
            return False
        await self.register()
        return True

    def _is_own(self, found: Node) -> bool:
        """Whether a registration is one that was attempted in this session."""
        session = self._coordination.session
        return (found.owner, session) == (session, self._attempted_in)

    async def _end_of(self, found: Node | None) -> list[Op] | None:
        """What removes a registration that our former life left behind.

        None: look again; it is somebody else's, and may be about to end.
        """
        if found is None:
            return []
        if found.owner == self._coordination.session:
            raise self._taken("in this very process")
        if layout.registered_directory(found.data) != self._directory:
            if not await self._gone(found):
                other = layout.decode_broker(self.node.id, found.data)
                raise self._taken(f"at {other.host}:{other.port}, with another data directory")
            return None
        operations: list[Op] = [Delete(self._path, found.version)]
        controller = await self._coordination.get(layout.CONTROLLER)
        if controller is not None and controller.owner == found.owner:
            operations.append(Delete(layout.CONTROLLER, controller.version))
        return operations

    async def _gone(self, found: Node) -> bool:
        """Whether a registration ends within the time that a dead session lives on."""
        _log.warning("Broker %d is registered already; waiting whether it goes.", self.node.id)
        deadline = self._clock.monotonic() + self._coordination.session_timeout_s
        while self._clock.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)
            node = await self._coordination.get(self._path)
            if node is None or node.created != found.created:
                return True
        return False

    def _taken(self, by: str) -> BarnabasError:
        return BarnabasError(
            f"Broker {self.node.id} is registered already {by}; give this one another node.id, or "
            "stop that one."
        )

    async def _end_of_life(self) -> Create | SetData:
        life = await self._coordination.get(self._life_path)
        if life is None:
            return await self._next_life()
        return SetData(self._life_path, life.data, life.version)

    async def _next_life(self) -> Create | SetData:
        life = await self._coordination.get(self._life_path)
        data = layout.encode_life(self._directory)
        if life is None:
            return Create(self._life_path, data)
        return SetData(self._life_path, data, life.version)
