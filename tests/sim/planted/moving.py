"""Mistakes in moving partitions to other brokers."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from barnabas.cluster import moves
from barnabas.cluster.image import PartitionState
from barnabas.replica.service import HostedTopic


def a_move_ends_before_all_are_in_sync(patch: pytest.MonkeyPatch) -> None:
    honest = moves._arrived

    def hasty(state: PartitionState, staying: Collection[int]) -> PartitionState | None:
        missing = (each for each in state.target if each not in state.isr)
        return honest(replace(state, isr=(*state.isr, *missing)), staying)

    patch.setattr(moves, "_arrived", hasty)


def who_is_to_go_goes_at_once(patch: pytest.MonkeyPatch) -> None:
    def is_mine(self: HostedTopic, index: int) -> bool:
        return self.me in self.topic.partitions[index].target

    patch.setattr(HostedTopic, "is_mine", is_mine)


def who_went_counts_for_what_it_had_when_it_comes_back(patch: pytest.MonkeyPatch) -> None:
    honest = moves._step

    def step(before: PartitionState, after: PartitionState) -> PartitionState | None:
        done = honest(before, after)
        if done is None or done.leader != before.leader:
            return done
        return replace(done, leader_epoch=before.leader_epoch)

    patch.setattr(moves, "_step", step)


PLANTS = (
    a_move_ends_before_all_are_in_sync,
    who_is_to_go_goes_at_once,
    who_went_counts_for_what_it_had_when_it_comes_back,
)
