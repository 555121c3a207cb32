"""Copies held down to a rate: bytes and seconds alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.keys import LONG_MAX
from barnabas.replica.throttle import Throttle, is_listed


@pytest.mark.parametrize(
    ("listed", "expected"),
    [((), False), (("*",), True), (("0:1", "3:2"), True), (("3:1", "2:3"), False), (("",), False)],
)
def test_replicas_are_listed_by_partition_and_broker(
    listed: tuple[str, ...], expected: bool
) -> None:
    assert is_listed(listed, 3, 2) is expected


def test_what_is_unlimited_never_waits() -> None:
    throttle = Throttle()
    throttle.record(10**15, LONG_MAX, 1.0)
    assert throttle.wait_s(LONG_MAX, 1.0) == 0


def test_a_rate_of_nothing_lets_nothing_through() -> None:
    assert Throttle().wait_s(0, 5.0) > 0


def test_a_limit_that_is_lifted_counts_at_once() -> None:
    throttle = Throttle()
    throttle.record(1_000_000, 10, 0.0)
    assert throttle.wait_s(10, 60.0) > 0
    assert throttle.wait_s(LONG_MAX, 60.0) == 0
    assert throttle.wait_s(1_000_000, 61.0) == 0


@given(
    rate=st.integers(1, 10**9),
    sizes=st.lists(st.integers(0, 10**7), min_size=1, max_size=30),
    begins_s=st.floats(0, 10**6),
)
def test_no_more_goes_than_the_rate_allows_and_one_second_and_one_piece(
    rate: int, sizes: list[int], begins_s: float
) -> None:
    throttle, now_s, sent = Throttle(), begins_s, 0
    for size in sizes:
        for _ in range(200):
            wait_s = throttle.wait_s(rate, now_s)
            if not wait_s:
                break
            now_s += wait_s * 50  # (Whoever looks again late has lost nothing but time.)
        else:
            return  # Larger by far than what it may take: nobody waits for that here.
        assert sent <= rate * (now_s - begins_s + 1.001) + 1
        throttle.record(size, rate, now_s)
        sent += size
