"""The topic that shards are kept in: made when it is first needed."""

import asyncio
from collections.abc import Callable

from barnabas.cluster.image import Image
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewTopic
from barnabas.model.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.ports.coordination import CoordinationError, CoordinationLostError


def replicas_to_ask_for(image: Image, wanted: int) -> int:
    """A broker that is alone makes do with what it has. One of several does not: whoever comes
    first, while the others still start, would leave everybody's offsets with one broker for ever.
    """
    alone = image.config.cluster.zookeeper_connect is None
    return min(wanted, len(image.brokers)) if alone else wanted


class InternalTopic:
    """A topic by its name, and what it is like where it has to be made."""

    def __init__(self, cluster: Cluster, name: str, new: Callable[[], NewTopic]) -> None:
        self._cluster = cluster
        self._name = name
        self._new = new
        self._creation = asyncio.Lock()

    async def ready(self) -> None:
        """Make sure it is there. COORDINATOR_NOT_AVAILABLE: it can not be made now."""
        if self._name in self._cluster.image.topics:
            return
        async with self._creation:
            if self._name not in self._cluster.image.topics:
                await self._create()

    async def _create(self) -> None:
        try:
            (result,) = await self._cluster.create_topics([self._new()])
        except (BarnabasError, CoordinationError, CoordinationLostError, KafkaError) as error:
            # (Of the latter there is NOT_CONTROLLER, which no client expects who asks for this.)
            raise KafkaError(ErrorCode.coordinator_not_available, str(error)) from error
        if result.code not in (ErrorCode.none, ErrorCode.topic_already_exists):
            message = result.message or result.code.name
            raise KafkaError(ErrorCode.coordinator_not_available, message)
