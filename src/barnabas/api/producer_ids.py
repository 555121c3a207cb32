"""Producer ids for idempotent producers, handed out one by one from the cluster's blocks."""

import asyncio
from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

from barnabas.cluster.service import Cluster


class ProducerIds:
    """A block taken from the cluster, and how much of it is left."""

    def __init__(self) -> None:
        self._left: Iterator[int] = iter(())
        self._refilling = asyncio.Lock()

    async def take(self, cluster: Cluster) -> int:
        """An id that nobody had before. Callers queue while the next block is fetched."""
        async with self._refilling:
            taken = next(self._left, None)
            if taken is None:
                self._left = iter(await cluster.allocate_producer_ids())
                taken = next(self._left)
            return taken


_OF_CLUSTER: Final[WeakKeyDictionary[Cluster, ProducerIds]] = WeakKeyDictionary()
"""Each broker of a process has a cluster object of its own, and with it a block of its own."""


def producer_ids_of(cluster: Cluster) -> ProducerIds:
    """The ids this cluster's broker hands out; forgotten together with it."""
    found = _OF_CLUSTER.get(cluster)
    if found is None:
        found = _OF_CLUSTER[cluster] = ProducerIds()
    return found
