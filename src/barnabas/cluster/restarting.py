"""What a broker writes about its own partitions when it starts again."""

from barnabas.cluster import announcements, commits
from barnabas.cluster.announcements import Heard
from barnabas.cluster.controller import decide_restart
from barnabas.cluster.errors import CHANGED_MEANWHILE
from barnabas.cluster.image import Image
from barnabas.cluster.reading import Reading
from barnabas.model.stops import Stop
from barnabas.ports.coordination import Coordination


class Restart:
    """One broker's, before it takes part."""

    def __init__(self, coordination: Coordination, reading: Reading, broker: int) -> None:
        self._coordination = coordination
        self._reading = reading
        self._broker = broker

    def is_needed(self, image: Image) -> bool:
        """Whether there is anything to write after a clean stop."""
        return bool(decide_restart(image.topics.values(), self._broker, 0, Stop.CLEAN))

    async def carry_out(self, stop: Stop) -> None:
        """Write it, on whatever others may have written meanwhile."""
        while not await self._attempt(stop):
            pass

    async def _attempt(self, stop: Stop) -> bool:
        image, _ = await self._reading.everything(Heard())
        writes = decide_restart(image.topics.values(), self._broker, image.controller_epoch, stop)
        for piece in commits.cut(writes):
            told = announcements.of_writes(piece.writes, "").operation()
            try:
                await self._coordination.commit(*piece.operations, told)
            except CHANGED_MEANWHILE:
                return False  # Somebody has changed one of these states.
        return True
