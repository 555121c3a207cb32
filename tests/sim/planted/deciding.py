"""Mistakes in who may decide, and who may lead."""

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.cluster import controller, layout
from barnabas.cluster.elections import elect
from barnabas.cluster.image import PartitionState
from barnabas.cluster.office import Office
from barnabas.cluster.restarting import Restart
from barnabas.model.stops import Stop
from barnabas.ports.coordination import ANY_VERSION, Op, SetData
from barnabas.replica.partition import Partition


def the_controller_checks_no_versions(patch: pytest.MonkeyPatch) -> None:
    async def commit(self: Office, operations: Sequence[Op]) -> None:
        self.require()
        self._commits += 1
        mark = f"{self._node_id}-{self.epoch}-{self._commits}".encode()
        loose = [
            SetData(each.path, each.data, ANY_VERSION) if isinstance(each, SetData) else each
            for each in operations
        ]
        while not await self._attempt(
            [SetData(layout.LAST_COMMIT, mark, ANY_VERSION), *loose], mark
        ):
            self.require()
        self._last_commit += 1

    patch.setattr(Office, "commit", commit)


def an_unclean_restart_stays_in_sync(patch: pytest.MonkeyPatch) -> None:
    honest = Restart.carry_out

    async def carry_out(self: Restart, stop: Stop) -> None:
        if stop is not Stop.LOSSY:
            await honest(self, stop)

    patch.setattr(Restart, "carry_out", carry_out)


def anybody_is_elected(patch: pytest.MonkeyPatch) -> None:
    def unclean(state: PartitionState, alive: Any, **options: Any) -> PartitionState | None:
        return elect(state, alive, **options | {"unclean": True})

    patch.setattr(controller, "elect", unclean)


def a_leader_goes_on_without_its_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "leads", property(lambda self: self.is_leader))
    patch.setattr(Partition, "lease_lost", lambda _self: None)


PLANTS = (
    the_controller_checks_no_versions,
    an_unclean_restart_stays_in_sync,
    anybody_is_elected,
    a_leader_goes_on_without_its_lease,
)
