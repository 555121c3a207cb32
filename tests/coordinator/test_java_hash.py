"""The hash of a text in Java, and the partition where Kafka keeps a group of that name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.java_hash import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "hashed", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("my-group", -1906497762, 12),
        ("grüße", 98768023, 23),
        ("gruppe-é漢😀", -1137290290, 40),
        ("a\0b", 93315, 15),
        ("polygenelubricants", -(2**31), 0),
        ("consumer-4", -166239203, 3),
        ("x" * 32767, -2080510088, 38),
        ("é漢" * 5000, 1154716488, 38),
    ],
)
def test_as_java_says(text: str, hashed: int, partition: int) -> None:
    assert java_hash(text) == hashed % 2**32
    assert partition_of(text, 50) == partition


@given(st.text(max_size=1000))
def test_as_java_computes_it(text: str) -> None:
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + high * 256 + low) % 2**32
    assert java_hash(text) == value
