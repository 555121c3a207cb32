"""The controller, when it is another broker. (The broker hands in the way to it.)"""

from collections.abc import Sequence
from typing import Protocol

from barnabas.cluster.image import BrokerNode
from barnabas.cluster.topics import NewTopic, TopicResult


class RemoteController(Protocol):
    """The way to the controller when it is another broker."""

    async def create_topics(
        self, controller: BrokerNode, topics: Sequence[NewTopic]
    ) -> list[TopicResult]:
        """Have these created there; NotControllerError or OSError when that did not work."""
        ...
