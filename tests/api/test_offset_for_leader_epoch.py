"""OffsetForLeaderEpoch: where an epoch ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House


def _ask(
    house: House, epoch: int, *, index: int = 0, topic: str = "epochs", current: int = -1
) -> Any:
    asked = {"partition": index, "leader_epoch": epoch, "current_leader_epoch": current}
    topics = [{"topic": topic, "partitions": [asked]}]
    answer = house.ask("offset_for_leader_epoch", 4, topics=topics)
    (row,) = answer["topics"][0]["partitions"]
    return row["error_code"], row["leader_epoch"], row["end_offset"]


def _epochs(house: House) -> None:
    """Offsets 0 to 4 in epoch 0, 5 and 6 in epoch 2; the leader's epoch is 4."""
    house.topic("epochs", 2)
    house.append("epochs", *range(5))
    house.partition("epochs").leader_epoch = 2
    house.append("epochs", 5, 6)
    house.partition("epochs").leader_epoch = 4


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, ("none", 0, 5)),
        (1, ("none", 0, 5)),
        (2, ("none", 2, 7)),
        (3, ("none", 2, 7)),
        (4, ("none", 4, 7)),
        (5, ("none", -1, -1)),
        (-1, ("none", -1, -1)),
    ],
)
def test_ends(house: House, epoch: int, expected: Any) -> None:
    _epochs(house)
    assert _ask(house, epoch) == expected


@pytest.mark.parametrize("epoch", [0, 3])
def test_an_empty_partition_ends_where_it_begins(house: House, epoch: int) -> None:
    house.topic("epochs")
    house.partition("epochs").leader_epoch = 3
    assert _ask(house, epoch) == ("none", epoch, 0)


@pytest.mark.parametrize(
    ("current", "error"), [(4, "none"), (3, "fenced_leader_epoch"), (5, "unknown_leader_epoch")]
)
def test_the_present_epoch_is_checked(house: House, current: int, error: str) -> None:
    _epochs(house)
    assert _ask(house, 0, current=current)[0] == error


def test_what_is_not_here(house: House) -> None:
    _epochs(house)
    unknown = ("unknown_topic_or_partition", -1, -1)
    assert _ask(house, 0, index=9) == unknown
    assert _ask(house, 0, topic="no-epochs") == unknown
