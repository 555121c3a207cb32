"""Partitions are moved while everything else goes wrong: which, where to, and when.

Drawn from a stream of its own, so that a seed's faults are what they would be without. Some seeds
move nothing.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.cluster.image import PartitionState
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.asking import request
from barnabas.sim.cluster.client import Client, NoAnswerError
from barnabas.sim.cluster.settings import Settings

ALTER_REASSIGNMENTS: Final = 45
_STREAM: Final = 1752
"""By which most seeds that planted mistakes were found by (tests/sim/planted) move nothing: so they
tell the stories that they told before there were moves."""
_MOVES_NOTHING: Final = 0.45
"""How many seeds do."""
_ATTEMPTS: Final = 5
_REFUSALS: Final = frozenset(
    {
        ErrorCode.no_reassignment_in_progress,
        # A broker that was to get a replica is not there, or only those are in sync who were to
        # go again.
        ErrorCode.invalid_replica_assignment,
    }
)


@dataclass(frozen=True, slots=True)
class Move:
    """One partition, by its place among all, shall be there; None: where it was."""

    at_s: float
    which: int
    replicas: tuple[int, ...] | None


def draw_moves(seed: int | str, settings: Settings) -> list[Move]:
    """The moves of a seed, in order."""
    chance = random.Random(f"{seed}/moves/{_STREAM}")
    if chance.random() < _MOVES_NOTHING:
        return []
    # A single replica that has not synced everything loses it with its power: nobody promises
    # more.
    least = 1 if settings.synced else 2
    brokers = range(1, settings.brokers + 1)
    # Few, so that what was moved away comes back, and changes its mind on the way.
    places = [chance.getrandbits(8) for _ in range(2)]
    moves = []
    for _ in range(chance.randint(3, 8)):
        at_s = round(chance.uniform(0, settings.faults_s), 3)
        replicas = chance.sample(brokers, chance.randint(least, 3))
        back = chance.random() < 0.15
        moves.append(Move(at_s, chance.choice(places), None if back else tuple(replicas)))
    return sorted(moves, key=lambda each: each.at_s)


class Mover:
    """Asks for moves when their time has come."""

    def __init__(
        self,
        client: Client,
        states: Mapping[TopicPartition, PartitionState],
        now_s: Callable[[], float],
    ) -> None:
        self.begun = 0
        """Moves that were taken on."""
        self.idle = True
        self.wanted = True
        """Whether more shall be begun."""
        self._client = client
        self._states = states
        self._now_s = now_s

    async def run(self, moves: Sequence[Move]) -> None:
        """All of these, from now on. One that nobody takes on is left out."""
        begun_s = self._now_s()
        for move in moves:
            await asyncio.sleep(max(begun_s + move.at_s - self._now_s(), 0.0))
            if not self.wanted:
                return
            self.idle = False
            partition = sorted(self._states)[move.which % len(self._states)]
            for _ in range(_ATTEMPTS):
                if await self._ask(partition, move.replicas):
                    break
                await self._client.rest()
            self.idle = True

    async def _ask(self, partition: TopicPartition, replicas: tuple[int, ...] | None) -> bool:
        """Whether there is nothing more to ask."""
        row = {"partition_index": partition.partition, "replicas": replicas}
        topic = {"name": partition.topic, "partitions": [row]}
        wanted = request(ALTER_REASSIGNMENTS, {"topics": [topic], "timeout": 5_000})
        try:
            answer = await self._client.ask(
                self._client.any_broker(), ALTER_REASSIGNMENTS, 1, wanted
            )
        except NoAnswerError:
            return False
        if answer.error_code is not ErrorCode.none:
            return False
        ((result,),) = (each.partitions for each in answer.responses)
        self.begun += result.error_code is ErrorCode.none
        return result.error_code is ErrorCode.none or result.error_code in _REFUSALS
