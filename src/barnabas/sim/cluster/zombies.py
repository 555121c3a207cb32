"""Nobody leads for long after another was elected: a broker hears of it, or its lease runs out.

Epochs and versions make what such a leader does harmless; but its clients wait for it in vain.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from barnabas.cluster.image import PartitionState
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.machine import Machine
from barnabas.sim.cluster.truth import demand

_LEASE: Final = 2 / 3
"""Of a session: for so long a broker trusts what it heard last."""
_NEWS_S: Final = 1.5
"""How long news may take that are told late."""


class Zombies:
    """Who acts as a leader, and since when it should not."""

    def __init__(
        self,
        machines: Iterable[Machine],
        states: Mapping[TopicPartition, PartitionState],
        now_s: Callable[[], float],
    ) -> None:
        self._machines = list(machines)
        self._states = states
        self._now_s = now_s
        self._since: dict[tuple[Machine, int, int, TopicPartition], float] = {}

    def look(self) -> None:
        """A process that stands still can not know: for it, time begins when it goes on. And news
        are asked for anew when the connection breaks in between: then time begins then. (Whoever is
        cut off has no connection that could break.)"""
        now_s = self._now_s()
        seen = {}
        for machine in self._machines:
            if machine.process is None or machine.process.paused:
                continue
            for partition in machine.partitions:
                name = partition.log.partition
                state = self._states.get(name)
                if (
                    state is None
                    or not partition.leads
                    or partition.in_sync is None
                    or state.leader_epoch == partition.leader_epoch
                ):
                    continue
                key = (machine, machine.lives, machine.breaks, name)
                since = seen[key] = self._since.get(key, now_s)
                demand(
                    now_s - since <= machine.settings.session_s * _LEASE + _NEWS_S,
                    "Lease",
                    f"{machine.name} has led {name.directory} in epoch {partition.leader_epoch} "
                    f"for {now_s - since:.1f} s since it could know of epoch {state.leader_epoch}",
                )
        self._since = seen
