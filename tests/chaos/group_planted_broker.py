"""A broker with a planted defect: `python group_planted_broker.py DEFECT REPORT WISHES up …`.

Whoever checks groups must find each of them; see test_group_journal.
"""

import asyncio
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos import observed_broker
from tests.chaos.broker_process import BrokerProcess

# Longer than any life of a broker in the test: what a life acknowledged is gone with it, however
# slow the machine is.
_WRITTEN_LATE_S: Final = 600.0


def answers_before_writing() -> None:
    """Whatever is decided is answered at once, and would be written much later."""
    from barnabas.coordinator.runtime.seat import Seat

    write = Seat._write

    def write_late(self: Seat[Any, Any], turn: Any) -> bool:
        asyncio.get_running_loop().call_later(_WRITTEN_LATE_S, write, self, turn)
        return True

    Seat._write = write_late  # type: ignore[method-assign]


def forgets_generations() -> None:
    """Classic groups begin with the first generation again after each start."""
    from barnabas.coordinator.group.classic.group import ClassicGroup
    from barnabas.coordinator.group.classic.groups import ClassicGroups

    loaded = ClassicGroups.loaded

    def loaded_anew(self: ClassicGroups, turn: Any) -> None:
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                group.generation = 0
        loaded(self, turn)

    ClassicGroups.loaded = loaded_anew  # type: ignore[method-assign]


def waits_for_no_release() -> None:
    """Members of consumer groups get partitions that others have not given up yet."""
    from barnabas.coordinator.group.consumer import groups
    from barnabas.coordinator.group.consumer.reconcile import next_ownership

    def impatient(owns: Any, step: Any) -> Any:
        return next_ownership(owns, dataclasses.replace(step, free=lambda *_: True))

    groups.next_ownership = impatient  # type: ignore[attr-defined]


def gives_all_the_first_share() -> None:
    """Every member of a classic group gets the first share, whoever asks."""
    from barnabas.coordinator.group.asks import Synced
    from barnabas.coordinator.group.service import GroupCoordinator

    deliver = GroupCoordinator.sync
    first: dict[tuple[str, int], bytes] = {}

    def sync(self: GroupCoordinator, ask: Any) -> Any:
        async def first_share() -> Synced:
            answer = deliver(self, ask)
            synced = await answer if isinstance(answer, asyncio.Future) else answer
            share = first.setdefault((ask.group_id, ask.generation), synced.assignment)
            return dataclasses.replace(synced, assignment=share)

        return asyncio.ensure_future(first_share())

    GroupCoordinator.sync = sync  # type: ignore[method-assign]


DEFECTS: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        answers_before_writing,
        forgets_generations,
        waits_for_no_release,
        gives_all_the_first_share,
    )
}


class PlantedBroker(BrokerProcess):
    """A broker process with the defect that its home is named after."""

    def argv(self) -> list[str]:
        """Through this file."""
        python, _, *rest = super().argv()
        return [python, __file__, self.home.name, *rest]


if __name__ == "__main__":
    DEFECTS[sys.argv.pop(1)]()
    observed_broker.main()
