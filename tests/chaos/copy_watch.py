"""How far the copiers are, as their broker knows it: what they have committed, what is left."""

from collections.abc import Sequence

from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.group_asks import committed
from tests.chaos.talk import Place

from barnabas.model.errors import ErrorCode


class Watch:
    """Counts offsets: those of markers and of aborted records, too."""

    def __init__(self, broker: BrokerProcess, group: str, places: Sequence[Place]) -> None:
        self._broker = broker
        self._group = group
        self._places = places
        self.done = 0
        """Offsets that the group has committed, in all partitions."""
        self.written = 0
        """Offsets of all partitions."""

    @property
    def backlog(self) -> int:
        """What is still to be copied, as of the last look."""
        return self.written - self.done

    def look(self) -> None:
        """Ask the broker. What it does not know yet is as it was."""
        rows = [{"partition_index": number, "timestamp": -1} for _, number in self._places]
        topics = [{"name": self._places[0][0], "partitions": rows}]
        with self._broker.link() as link:
            told = talk.ask(link, talk.LIST_OFFSETS, {"replica_id": -1, "topics": topics})
            offsets = committed(link, self._group)
        ends = [row["offset"] for row in told["topics"][0]["partitions"]]
        self.written = max(self.written, sum(ends))
        if not isinstance(offsets, ErrorCode):
            found = [offsets[place].offset for place in self._places if place in offsets]
            self.done = max(self.done, sum(found))
