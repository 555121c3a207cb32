"""Which logs want to be looked at, so that nobody has to look at all of them.

Shared by the logs of one store. Any thread may add; only the loop takes out.
"""

from barnabas.model.topics import TopicPartition


class Attention:
    """Logs of which something has changed since somebody looked."""

    __slots__ = ("moved", "unsynced")

    def __init__(self) -> None:
        self.unsynced: set[TopicPartition] = set()
        """May have something to sync: a tail that grows older, or a segment that was rolled."""
        self.moved: set[TopicPartition] = set()
        """May begin, or be synced, elsewhere than the last checkpoint says."""

    def draw(self, partition: TopicPartition) -> None:
        """Something has changed."""
        self.unsynced.add(partition)
        self.moved.add(partition)


def nobody_looks(partition: TopicPartition) -> None:
    """For a log that belongs to no store."""
