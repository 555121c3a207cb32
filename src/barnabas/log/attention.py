"""Which logs want to be looked at, so that nobody has to look at all of them.

Shared by the logs of one store. Any thread may add; only the loop takes out.
"""

from barnabas.model.topics import TopicPartition


class Attention:
    """Logs of which something has changed since somebody looked."""

    __slots__ = ("moved", "unsynced")

    def __init__(self) -> None:
        # (Dictionaries, because they keep an order that is the same in every run.)
        self.unsynced: dict[TopicPartition, None] = {}
        """May have something to sync: a tail that grows older, or a segment that was rolled."""
        self.moved: dict[TopicPartition, None] = {}
        """May begin, or be synced, elsewhere than the last checkpoint says."""

    def draw(self, partition: TopicPartition) -> None:
        """Something has changed."""
        self.unsynced[partition] = None
        self.moved[partition] = None


def nobody_looks(partition: TopicPartition) -> None:
    """For a log that belongs to no store."""


def nobody_keeps_it() -> None:
    """For a log of which no checkpoint speaks."""
