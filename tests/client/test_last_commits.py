"""Commits that nobody waited for, when partitions go."""

from collections.abc import Mapping
from typing import cast

from barnabas.client.intake import Intake
from barnabas.client.semantics import AtLeastOnce
from barnabas.model.topics import TopicPartition

PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Noted:
    """Takes commits, and answers none of those that are not waited for."""

    def __init__(self) -> None:
        self.assigned = {PLACE, OTHER}
        self.commits: list[tuple[dict[TopicPartition, int], bool]] = []
        self.failed: dict[TopicPartition, int] = {}

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        if offsets:
            self.commits.append((dict(offsets), wait))

    def take_failed(self) -> dict[TopicPartition, int]:
        failed, self.failed = self.failed, {}
        return failed


def begun() -> tuple[AtLeastOnce, Noted]:
    intake = Noted()
    semantics = AtLeastOnce(cast(Intake, intake), interval_s=0.0, every=None)
    semantics.moved(PLACE, 3)
    semantics.moved(OTHER, 7)
    semantics.tend()
    assert intake.commits.pop() == ({PLACE: 3, OTHER: 7}, False)
    return semantics, intake


def test_what_was_not_confirmed_is_committed_again_before_a_partition_goes() -> None:
    semantics, intake = begun()
    semantics.leaving([PLACE], lost=False)
    assert intake.commits.pop() == ({PLACE: 3}, True)
    semantics.leaving([PLACE], lost=False)
    assert not intake.commits, "it was confirmed"
    semantics.finish()
    assert intake.commits.pop() == ({OTHER: 7}, True)


def test_what_is_lost_is_another_members_business() -> None:
    semantics, intake = begun()
    semantics.leaving([PLACE, OTHER], lost=True)
    semantics.finish()
    assert not intake.commits


def test_a_later_offset_counts_more_than_one_that_failed_or_was_sent() -> None:
    semantics, intake = begun()
    intake.failed = {PLACE: 2}
    semantics.moved(OTHER, 9)
    semantics.finish()
    assert intake.commits.pop() == ({PLACE: 3, OTHER: 9}, True)
    semantics, intake = begun()
    semantics.commit(None, wait=True)
    semantics.moved(PLACE, 4)
    semantics.commit(None, wait=True)
    semantics.leaving([PLACE], lost=False)
    assert intake.commits == [({PLACE: 4}, True)], "nothing goes back"
