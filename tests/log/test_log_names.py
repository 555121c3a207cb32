"""File names are Kafka's, and nothing else is taken for one."""

import pytest

from barnabas.log import names


@pytest.mark.parametrize("offset", [0, 42, 2**31, 2**63 - 1])
def test_a_name_holds_twenty_digits_and_gives_its_offset_back(offset: int) -> None:
    name = names.file_name(offset, names.LOG)
    assert len(name) == 24
    assert names.offset_of(name, names.LOG) == offset


@pytest.mark.parametrize(
    "name",
    [
        "0.log",
        "00000000000000000000",
        "00000000000000000000.index",
        "0000000000000000000a.log",
        "+0000000000000000000.log",
        "000000000000000000000.log",
        "00000000000000000000.log.deleted",
        "\u0660" * 20 + ".log",
        ".log",
        "leader-epoch-checkpoint",
    ],
)
def test_other_names_are_no_segment(name: str) -> None:
    assert names.offset_of(name, names.LOG) is None
