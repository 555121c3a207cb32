"""Turns: fair, in any thread, and aware of partitions that come."""

import threading
from collections import Counter

import pytest

from barnabas.client import RoundRobin


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_of_two_messages_on_two_partitions_each_gets_one() -> None:
    for _ in range(20):
        turns = RoundRobin(lambda _: [0, 1])
        assert {turns.next("events"), turns.next("events")} == {0, 1}


def test_topics_take_turns_apart() -> None:
    turns = RoundRobin(lambda topic: range(2 if topic == "two" else 3))
    seen = [(turns.next("two"), turns.next("three")) for _ in range(6)]
    assert Counter(two for two, _ in seen) == {0: 3, 1: 3}
    assert Counter(three for _, three in seen) == {0: 2, 1: 2, 2: 2}


def test_producers_of_one_message_each_spread_as_well() -> None:
    assert {RoundRobin(lambda _: range(4)).next("events") for _ in range(200)} == {0, 1, 2, 3}


def test_added_partitions_take_part_after_the_refresh_and_only_then() -> None:
    clock, partitions, asked = Clock(), [0], []

    def ask(topic: str) -> list[int]:
        asked.append(topic)
        return list(partitions)

    turns = RoundRobin(ask, refresh_s=30, clock=clock)
    assert [turns.next("events") for _ in range(3)] == [0, 0, 0]
    partitions.append(1)
    clock.now = 29.9
    assert turns.next("events") == 0
    assert asked == ["events"]
    clock.now = 30.0
    assert {turns.next("events"), turns.next("events")} == {0, 1}
    assert asked == ["events", "events"]


def test_forgetting_asks_again() -> None:
    partitions = [0, 1, 2]
    turns = RoundRobin(lambda _: tuple(partitions))
    assert not turns.is_known("events")
    turns.next("events")
    assert turns.is_known("events")
    del partitions[1:]
    turns.forget("events")
    assert not turns.is_known("events")
    assert [turns.next("events") for _ in range(3)] == [0, 0, 0]


def test_an_error_is_told_and_the_next_asks_again() -> None:
    answers: list[list[int] | Exception] = [LookupError("no such topic"), [0]]

    def ask(_: str) -> list[int]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    turns = RoundRobin(ask)
    with pytest.raises(LookupError):
        turns.next("events")
    assert turns.next("events") == 0


def test_threads_share_the_turns_evenly() -> None:
    turns = RoundRobin(lambda _: range(4))
    taken: list[int] = []

    def take() -> None:
        taken.extend([turns.next("events") for _ in range(1000)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(taken) == dict.fromkeys(range(4), 1000)
