"""Mistakes in what a disk holds, and in what is made of it at the next start."""

import pytest

from barnabas.log import log as log_module
from barnabas.log import recovery
from barnabas.log.log import PartitionLog
from barnabas.log.producers import Producer, ProducerStates
from barnabas.replica.syncing import Syncing
from barnabas.sim.files import SimFiles


def names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimFiles, "sync_dir", lambda _self, _path: None)


def the_first_segment_is_not_named_first(patch: pytest.MonkeyPatch) -> None:
    """A mistake of our own, which seed 179 has found."""
    honest = PartitionLog.roll

    def roll(self: PartitionLog, now_ms: int) -> None:
        first = self.segments[0]
        synced, first.name_synced = first.name_synced, True
        try:
            honest(self, now_ms)
        finally:
            first.name_synced = synced and len(self.segments) == 1

    patch.setattr(PartitionLog, "roll", roll)


def torn_batches_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "problem_of", lambda *_: None)


def what_is_not_synced_counts_as_if_it_were(patch: pytest.MonkeyPatch) -> None:
    """With flush.messages=1."""
    patch.setattr(Syncing, "own_end", property(lambda self: self.log.end_offset))


def producers_are_forgotten_at_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_module, "restored_producers", lambda *_: ProducerStates())


def repeated_batches_are_out_of_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producer, "repeated", lambda _self, _header: None)


PLANTS = (
    names_are_not_synced,
    the_first_segment_is_not_named_first,
    torn_batches_are_kept,
    what_is_not_synced_counts_as_if_it_were,
    producers_are_forgotten_at_start,
    repeated_batches_are_out_of_order,
)
