"""Reads and commits on one session, below a chroot."""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from operator import methodcaller
from typing import Any, Final

from kazoo.client import TransactionRequest
from kazoo.protocol.states import ZnodeStat

from barnabas.ports.coordination import (
    Check,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    Op,
    SetData,
)
from barnabas.world.zookeeper.errors import first_failure
from barnabas.world.zookeeper.one_session import OneSession

_AT_ONCE: Final = 256
"""Nodes that are asked for before the first answer is waited for."""


class Requests:
    """What is asked of ZooKeeper, with our paths below `chroot`."""

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot

    def at(self, path: str) -> str:
        """Where a node of ours is in the whole tree."""
        return (self._chroot + path).rstrip("/") or "/"

    async def make_chroot(self, session: OneSession) -> None:
        """Make what is missing of it; empty nodes without meaning."""
        names = self._chroot.split("/")[1:]
        for count in range(1, len(names) + 1):
            path = "/" + "/".join(names[:count])
            if await self._raw(session, path) is None:
                with contextlib.suppress(NodeExistsError):  # somebody else was faster
                    await session.ask(path, methodcaller("create_async", path))
        # Whether we may read at all is better known now than later.
        await session.ask(self.at("/"), methodcaller("get_children_async", self.at("/")))

    async def get(self, session: OneSession, path: str) -> Node | None:
        """The node, or None."""
        return await self._raw(session, self.at(path))

    async def _raw(self, session: OneSession, path: str) -> Node | None:
        try:
            data, stat = await session.ask(path, methodcaller("get_async", path))
        except NoNodeError:
            return None
        return _node(data, stat)

    async def children(self, session: OneSession, path: str) -> Sequence[str]:
        """Names of the children, sorted."""
        where = self.at(path)
        try:
            names: Sequence[str] = await session.ask(
                where, methodcaller("get_children_async", where)
            )
        except NoNodeError:
            return []
        return sorted(names)

    async def tree(self, session: OneSession, path: str) -> Mapping[str, Node]:
        """Every node below; one that goes while we read is left out."""
        found: dict[str, Node] = {}
        parents: list[str] = []
        waiting = [f"{path.rstrip('/')}/{name}" for name in await self.children(session, path)]
        while waiting:
            now, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            for each, answer in zip(now, await self._get_all(session, now), strict=True):
                if answer is not None:
                    data, stat = answer
                    found[each] = _node(data, stat)
                    if stat.numChildren:
                        parents.append(each)
            if not waiting:
                below = await _all([self.children(session, each) for each in parents])
                for each, names in zip(parents, below, strict=True):
                    waiting += [f"{each}/{name}" for name in names]
                parents = []
        return dict(sorted(found.items()))

    async def _get_all(self, session: OneSession, paths: Sequence[str]) -> Sequence[Any]:
        """What kazoo says of each node, None for one that is gone."""
        questions = [session.send(methodcaller("get_async", self.at(path))) for path in paths]
        answers = [session.answer(path, each) for path, each in zip(paths, questions, strict=True)]
        return await _all(answers, but=NoNodeError)

    async def commit(self, session: OneSession, operations: Sequence[Op]) -> None:
        """One multi, also for a single operation: one way to fail."""
        if not operations:
            return
        results = await session.ask(
            operations[0].path,
            lambda client: self._multi(client.transaction(), operations),
            proves=True,
        )
        failure = first_failure(operations, results)
        if failure is not None:
            raise failure

    def _multi(self, multi: TransactionRequest, operations: Sequence[Op]) -> Any:
        for operation in operations:
            path = self.at(operation.path)
            match operation:
                case Create(_, data, ephemeral, sequence):
                    multi.create(path, data, ephemeral=ephemeral, sequence=sequence)
                case SetData(_, data, version):
                    multi.set_data(path, data, version)
                case Delete(_, version):
                    multi.delete(path, version)
                case Check(_, version):
                    multi.check(path, version)
        return multi.commit_async()


def _node(data: bytes, stat: ZnodeStat) -> Node:
    return Node(data, stat.version, stat.czxid, stat.ephemeralOwner or 0)


async def _all(
    questions: Sequence[Coroutine[Any, Any, Any]], but: type[Exception] | None = None
) -> Sequence[Any]:
    """Every answer, None where it is the error `but`; any other error only when all have come, so
    that none is left unheard."""
    answers = await asyncio.gather(*questions, return_exceptions=True)
    for number, answer in enumerate(answers):
        if but is not None and isinstance(answer, but):
            answers[number] = None
        elif isinstance(answer, BaseException):
            raise answer
    return answers
