"""Kafka's checkpoint files: byte for byte, and nothing else is believed."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.log.checkpoints import (
    CheckpointError,
    read_offsets,
    read_rows,
    write_offsets,
    write_rows,
)
from barnabas.model.topics import TopicPartition
from barnabas.world.memory import MemoryFiles

_NAMES = st.text("abcXYZ019._-", min_size=1, max_size=20)
_OFFSETS = st.dictionaries(
    st.builds(TopicPartition, _NAMES, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)
)


def test_offsets_are_written_as_kafka_writes_them() -> None:
    files = MemoryFiles()
    write_offsets(
        files,
        "recovery-point-offset-checkpoint",
        {TopicPartition("b", 1): 5, TopicPartition("a", 10): 0, TopicPartition("a", 9): 2**63 - 1},
    )
    assert files.read("recovery-point-offset-checkpoint") == (
        b"0\n3\na 9 9223372036854775807\na 10 0\nb 1 5\n"
    )


def test_an_empty_checkpoint_has_version_and_count() -> None:
    assert write_rows([]) == b"0\n0\n"
    assert read_rows(b"0\n0\n", columns=3) == []


def test_a_missing_file_says_nothing() -> None:
    assert read_offsets(MemoryFiles(), "recovery-point-offset-checkpoint") == {}


@given(_OFFSETS)
def test_what_is_written_is_read_back(offsets: dict[TopicPartition, int]) -> None:
    files = MemoryFiles()
    write_offsets(files, "file", offsets)
    assert read_offsets(files, "file") == offsets


@given(_OFFSETS.filter(bool), st.data())
def test_a_file_cut_before_its_last_row_is_refused(
    offsets: dict[TopicPartition, int], data: st.DataObject
) -> None:
    files = MemoryFiles()
    write_offsets(files, "file", offsets)
    whole = files.read("file")
    last_row = whole.rstrip(b"\n").rfind(b"\n") + 1
    files.replace("file", whole[: data.draw(st.integers(0, last_row))])
    with pytest.raises(CheckpointError):
        read_offsets(files, "file")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    files = MemoryFiles()
    files.replace("file", b"0\n1\n" + noise)
    with contextlib.suppress(CheckpointError):
        assert len(read_offsets(files, "file")) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"1\n1\na 0 0\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\n1\na x 0\n", b"0\n1\na 0 0 0\n",
        b"0\n2\na 0 0\n", b"0\n0\na 0 0\n", b"0\nx\na 0 0\n", b"\n\n", bytes(32), b"0\n1\na 0 -\n",
        b"0\n1\na 0 99999999999999999999999\n", b"0\n1\na 0 1_0\n", b"0\n1\na 0 \xd9\xa1\n",
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(data: bytes) -> None:
    files = MemoryFiles()
    files.replace("file", data)
    with pytest.raises(CheckpointError):
        read_offsets(files, "file")
