"""Producer ids for idempotent producers, handed out one by one from the cluster's blocks."""

import asyncio
from collections.abc import Iterator

from barnabas.cluster.service import Cluster


class ProducerIds:
    """A block taken from the cluster, and how much of it is left."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._left: Iterator[int] = iter(())
        self._refilling = asyncio.Lock()

    async def take(self) -> int:
        """An id that nobody had before. Callers queue while the next block is fetched."""
        async with self._refilling:
            taken = next(self._left, None)
            if taken is None:
                self._left = iter(await self._cluster.allocate_producer_ids())
                taken = next(self._left)
            return taken
