"""Whether a broker may act as a leader is told as it changes, and not after its end."""

import asyncio
from collections.abc import Callable

from barnabas.broker.lease import LeaseKeeping
from barnabas.sim.loop import SimLoop, run


class Session:
    """The cluster, as far as the lease is concerned."""

    def __init__(self) -> None:
        self.left_s = 5.0
        self._told: list[Callable[[], None]] = []

    def on_session_event(self, told: Callable[[], None]) -> None:
        self._told.append(told)

    def lease_left_s(self) -> float:
        return self.left_s

    def event(self) -> None:
        for told in self._told:
            told()


def test_what_happens_to_the_session_of_a_stopping_broker_gives_nobody_an_office() -> None:
    """Coordinators that have closed would be called back, onto logs that are about to close."""

    async def main(_loop: SimLoop) -> None:
        session, heard = Session(), list[bool]()
        keeping = LeaseKeeping(session, heard.append)  # type: ignore[arg-type]
        keeping.start()
        keeping.close()
        for left_s in (0.0, 5.0):
            session.left_s = left_s
            session.event()
            await asyncio.sleep(60)
        assert heard == [True]

    run(main, 0)
