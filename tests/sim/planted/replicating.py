"""Mistakes between leaders and followers.

Two that others have made are not among them. That a fetch is of another epoch, and that a new
leader notes its epoch before it writes, are second locks here: each fetch says in which epoch the
follower's last batch was written, and each batch that is written notes its epoch.
"""

import dataclasses
from typing import Any

import pytest

from barnabas.api import fetch
from barnabas.api.fetch_followers import diverging_of_follower
from barnabas.cluster.image import PartitionState
from barnabas.cluster.isr import IsrChange
from barnabas.log.truncation import truncate_to
from barnabas.replica.in_sync import InSync
from barnabas.replica.partition import Partition
from barnabas.wire.fetch import FetchPartition


def cut_back_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """What KIP-101 did away with."""
    honest = Partition._follow

    def follow(self: Partition, state: PartitionState) -> None:
        is_new = state.leader_epoch != self.leader_epoch
        honest(self, state)
        if is_new and self.high_watermark < self.log.end_offset:
            truncate_to(self.log, self.high_watermark, 0)
            self.truncated()

    patch.setattr(Partition, "_follow", follow)


def only_the_proposed_isr_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSync, "maximal", property(lambda self: self.proposed or self.state.isr))


def followers_join_before_they_have_caught_up(patch: pytest.MonkeyPatch) -> None:
    honest = InSync.grown

    def grown(self: InSync, broker: int, _watermark: int, alive: Any) -> tuple[int, ...] | None:
        start, self.epoch_start = self.epoch_start, 0
        try:
            return honest(self, broker, 0, alive)
        finally:
            self.epoch_start = start

    patch.setattr(InSync, "grown", grown)


def committed_with_too_few_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InSync, "has_enough", lambda _self, _configured: True)


def what_followers_had_in_another_epoch_counts(patch: pytest.MonkeyPatch) -> None:
    """The third rule of KIP-320."""
    honest_follow, honest_lead = Partition._follow, Partition._lead
    known: dict[Partition, InSync] = {}

    def follow(self: Partition, state: PartitionState) -> None:
        if self.in_sync is not None:
            known[self] = self.in_sync
        honest_follow(self, state)

    def lead(self: Partition, me: int, state: PartitionState, now_s: float) -> None:
        before = self.in_sync or known.get(self)
        honest_lead(self, me, state, now_s)
        if before is not None and self.in_sync is not None:
            self.in_sync._followers.update(before._followers)
            self.advance()

    patch.setattr(Partition, "_follow", follow)
    patch.setattr(Partition, "_lead", lead)


def a_follower_counts_for_what_it_had_in_a_former_life(patch: pytest.MonkeyPatch) -> None:
    """What KIP-903 did away with."""
    honest_grown, honest_of = InSync.grown, IsrChange.of

    def grown(self: InSync, broker: int, watermark: int, alive: Any) -> tuple[int, ...] | None:
        follower, node = self.follower(broker), alive.get(broker)
        if follower is not None and node is not None:
            follower.broker_epoch = node.epoch
        return honest_grown(self, broker, watermark, alive)

    def of(*arguments: Any) -> IsrChange:
        return dataclasses.replace(honest_of(*arguments), lives=())

    patch.setattr(InSync, "grown", grown)
    patch.setattr(IsrChange, "of", staticmethod(of))


def nobody_looks_where_logs_part(patch: pytest.MonkeyPatch) -> None:
    """The first rule of KIP-320."""
    patch.setattr(fetch, "diverging_of_follower", lambda _partition, _part: None)


def epochs_that_the_leader_does_not_know_are_believed(patch: pytest.MonkeyPatch) -> None:
    """What KIP-279 did away with."""

    def diverging(partition: Partition, part: FetchPartition) -> tuple[int, int] | None:
        known = {epoch for epoch, _ in partition.log.epochs.entries}
        return diverging_of_follower(partition, part) if part.last_fetched_epoch in known else None

    patch.setattr(fetch, "diverging_of_follower", diverging)


PLANTS = (
    cut_back_to_the_high_watermark,
    only_the_proposed_isr_counts,
    followers_join_before_they_have_caught_up,
    committed_with_too_few_in_sync,
    what_followers_had_in_another_epoch_counts,
    a_follower_counts_for_what_it_had_in_a_former_life,
    nobody_looks_where_logs_part,
    epochs_that_the_leader_does_not_know_are_believed,
)
