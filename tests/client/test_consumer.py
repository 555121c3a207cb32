"""Messages in: reading alone, going back and forth, and the promises of a group."""

import signal
import threading
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest
from tests.client.quick import quick_consumer

from barnabas.client import (
    Admin,
    ClosedError,
    ConfigError,
    Consumer,
    Producer,
    Rebalance,
    TopicNotFoundError,
    TopicPartition,
)
from barnabas.client.message import from_milliseconds

TopicMaker = Callable[..., str]

BASE_MS = 1_700_000_000_000
IDLE_S = 0.3
"""How long to look when nothing may come."""
WAIT_S = 30.0


def fill(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    """Values 0, 1, …, a second apart."""
    # Without idempotence: a new producer's id would take half a second to come.
    with Producer(bootstrap, idempotent=False) as producer:
        for number in range(count):
            producer.post(
                topic, str(number), partition=partition, timestamp=BASE_MS + number * 1000
            )


def read(consumer: Consumer, count: int) -> list[int]:
    """So many values, each done but the last."""
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"only {found} came"
        found.append(int(message.text))
    return found


def rest(consumer: Consumer) -> list[int]:
    """All that is left; the last is done."""
    found: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while not consumer.assignment or any(consumer.lag().values()):
        message = consumer.poll(0.05)
        if message is not None:
            found.append(int(message.text))
        assert time.monotonic() < deadline, f"only {found} came"
    assert consumer.poll(0) is None
    return found


@pytest.fixture
def ten(bootstrap: str, make_topic: TopicMaker) -> str:
    """A topic of one partition with ten messages."""
    topic = make_topic()
    fill(bootstrap, topic, 10)
    return topic


def test_without_a_group_everything_is_read(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(3)
    for partition in range(3):
        fill(bootstrap, topic, 5, partition)
    with quick_consumer(topic, None, bootstrap) as consumer:
        assert sorted(read(consumer, 15)) == sorted([*range(5)] * 3)
        assert consumer.assignment == {TopicPartition(topic, number) for number in range(3)}
        assert set(consumer.lag().values()) == {0}
        assert set(consumer.position().values()) == {5}
        assert consumer.member_id == ""


def test_from_the_latest_only_what_is_new(bootstrap: str, ten: str) -> None:
    with quick_consumer(ten, None, bootstrap, start="latest") as consumer:
        assert consumer.position() == {TopicPartition(ten, 0): 10}
        assert consumer.poll(IDLE_S) is None
        fill(bootstrap, ten, 2)
        assert read(consumer, 2) == [0, 1]


def test_chosen_partitions(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(2)
    fill(bootstrap, topic, 3, 0)
    fill(bootstrap, topic, 4, 1)
    with quick_consumer(bootstrap_servers=bootstrap, assign=[(topic, 1)]) as consumer:
        assert rest(consumer) == [0, 1, 2, 3]


def test_seek_rewind_and_skip(bootstrap: str, ten: str) -> None:
    with quick_consumer(ten, None, bootstrap) as consumer:
        assert read(consumer, 4) == [0, 1, 2, 3]
        consumer.seek(ten, 0, 7)
        assert read(consumer, 2) == [7, 8]
        consumer.rewind()
        assert read(consumer, 2) == [0, 1]
        consumer.rewind(5)
        assert read(consumer, 1) == [5]
        consumer.skip(2)
        assert consumer.position() == {TopicPartition(ten, 0): 8}
        assert consumer.lag() == {TopicPartition(ten, 0): 2}
        assert read(consumer, 1) == [8]
        consumer.rewind(from_milliseconds(BASE_MS + 2500))
        assert read(consumer, 1) == [3]
        consumer.rewind(timedelta(days=36_500))
        consumer.skip(to="end")
        assert consumer.poll(IDLE_S) is None


def test_a_place_out_of_range_is_the_nearest_there_is(
    bootstrap: str, ten: str, admin: Admin
) -> None:
    admin.delete_records(ten, 0, 3)
    with quick_consumer(ten, None, bootstrap, start="latest") as consumer:
        consumer.rewind(0)
        assert read(consumer, 1) == [3]
        consumer.rewind(from_milliseconds(BASE_MS))
        assert read(consumer, 1) == [3]
        consumer.seek(ten, 0, 10_000)
        assert consumer.position() == {TopicPartition(ten, 0): 10}
        consumer.rewind(from_milliseconds(BASE_MS + 10**9))
        assert consumer.position() == {TopicPartition(ten, 0): 10}


def test_a_paused_partition_waits(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(2)
    fill(bootstrap, topic, 5, 0)
    fill(bootstrap, topic, 5, 1)
    with quick_consumer(topic, None, bootstrap) as consumer:
        consumer.pause([(topic, 0)])
        assert read(consumer, 5) == [0, 1, 2, 3, 4]
        assert consumer.position()[TopicPartition(topic, 1)] == 5
        assert consumer.poll(IDLE_S) is None
        consumer.resume()
        assert rest(consumer) == [0, 1, 2, 3, 4]


def test_batches_are_full_or_ready(bootstrap: str, ten: str) -> None:
    with quick_consumer(ten, None, bootstrap, timeout=WAIT_S) as consumer:
        batches = consumer.batches(4, linger=0.3)
        assert [len(next(batches)) for _ in range(3)] == [4, 4, 2]


def test_stop_ends_the_loop(bootstrap: str, ten: str) -> None:
    with quick_consumer(ten, None, bootstrap) as consumer:
        found = []
        for message in consumer:
            found.append(int(message.text))
            if message.text == "9":
                threading.Timer(0.1, consumer.stop).start()
        assert found == list(range(10))


def test_a_closed_consumer_says_so(bootstrap: str, ten: str) -> None:
    consumer = quick_consumer(ten, None, bootstrap)
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError, match="make a new one"):
        consumer.poll(0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs topics"),
        ({"topics": "a", "assign": [("a", 0)]}, "not both"),
        ({"topics": "a", "delivery": "at-most-once"}, 'group="…"'),
        ({"topics": "a", "commit": "manual"}, 'group="…"'),
        ({"topics": "a", "group": ""}, "can not be empty"),
        ({"topics": "a", "group": "g", "delivery": "twice"}, "not 'twice'"),
        ({"topics": "a", "group": "g", "delivery": "exactly-once"}, "SqliteLedger"),
        (
            {"topics": "a", "group": "g", "delivery": "at-most-once", "commit": "manual"},
            "goes with",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        quick_consumer(**arguments)  # type: ignore[arg-type]


def test_a_topic_that_is_not_there_is_named(bootstrap: str) -> None:
    with pytest.raises(TopicNotFoundError, match="There is no topic nowhere"):
        quick_consumer("nowhere", None, bootstrap)


def test_a_group_is_told_of_a_missing_topic(bootstrap: str, group: str) -> None:
    with (
        quick_consumer("nowhere", group, bootstrap) as consumer,
        pytest.raises(TopicNotFoundError, match="nowhere"),
    ):
        consumer.poll(WAIT_S)


def test_what_is_done_is_remembered(bootstrap: str, ten: str, group: str) -> None:
    with quick_consumer(ten, group, bootstrap) as consumer:
        assert read(consumer, 4) == [0, 1, 2, 3]
        # The loop did not come back for a fifth: the fourth is not done.
    with quick_consumer(ten, group, bootstrap) as consumer:
        assert read(consumer, 1) == [3]
        consumer.commit()
        assert consumer.committed() == {TopicPartition(ten, 0): 4}
    with quick_consumer(ten, group, bootstrap) as consumer:
        assert rest(consumer) == [4, 5, 6, 7, 8, 9]
        assert consumer.lag() == {TopicPartition(ten, 0): 0}
    with quick_consumer(ten, group, bootstrap) as consumer:
        assert rest(consumer) == []


def test_a_loop_that_was_left_begins_with_its_last_message_again(
    bootstrap: str, ten: str, group: str
) -> None:
    with quick_consumer(ten, group, bootstrap, timeout=WAIT_S) as consumer:
        for message in consumer:
            if message.text == "3":
                break
        assert next(iter(consumer)).text == "3"
        with pytest.raises(ZeroDivisionError):
            divide_until_five(consumer)
        assert next(iter(consumer)).text == "5"
        consumer.commit()
        assert next(iter(consumer)).text == "6"


def divide_until_five(consumer: Consumer) -> None:
    for message in consumer:
        _ = 1 // (int(message.text) - 5)


def test_committing_by_count_happens_while_the_loop_runs(
    bootstrap: str, ten: str, group: str, admin: Admin
) -> None:
    with quick_consumer(ten, group, bootstrap, commit_every=3, commit_interval=3600) as consumer:
        assert read(consumer, 8) == list(range(8))
        # Commits are not waited for, but the answers come in order.
        consumer.commit()
        assert admin.lag(group) == {TopicPartition(ten, 0): 2}


def test_a_rewind_is_remembered(bootstrap: str, ten: str, group: str) -> None:
    with quick_consumer(ten, group, bootstrap) as consumer:
        assert rest(consumer) == list(range(10))
        consumer.rewind(4)
    with quick_consumer(ten, group, bootstrap) as consumer:
        assert rest(consumer) == [4, 5, 6, 7, 8, 9]


def test_a_rewind_waits_for_the_assignment(bootstrap: str, ten: str, group: str) -> None:
    with quick_consumer(ten, group, bootstrap, start="latest") as consumer:
        consumer.rewind(8)
        assert read(consumer, 2) == [8, 9]


def test_manual_commits_are_the_only_ones(bootstrap: str, ten: str, group: str) -> None:
    with quick_consumer(ten, group, bootstrap, commit="manual") as consumer:
        assert read(consumer, 6) == [0, 1, 2, 3, 4, 5]
    with quick_consumer(ten, group, bootstrap, commit="manual") as consumer:
        messages = [consumer.poll(WAIT_S) for _ in range(4)]
        consumer.commit(messages[1])
    with quick_consumer(ten, group, bootstrap, commit="manual") as consumer:
        assert read(consumer, 2) == [2, 3]
        consumer.commit()
    with quick_consumer(ten, group, bootstrap, commit="manual") as consumer:
        assert read(consumer, 1) == [4]


def test_at_most_once_has_committed_before_it_hands_out(
    bootstrap: str, ten: str, group: str, admin: Admin
) -> None:
    place = TopicPartition(ten, 0)
    with quick_consumer(ten, group, bootstrap, delivery="at-most-once") as consumer:
        for number in range(3):
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.text == str(number)
            assert consumer.committed() == {place: number + 1}
        with pytest.raises(ConfigError, match="has committed before"):
            consumer.commit()
    with quick_consumer(ten, group, bootstrap, delivery="at-most-once", timeout=WAIT_S) as consumer:
        batches = consumer.batches(4, linger=0.3)
        assert [len(next(batches)) for _ in range(2)] == [4, 3]
    assert admin.lag(group) == {place: 0}


def test_a_batch_holds_nothing_that_went_to_another_member_meanwhile(
    bootstrap: str, make_topic: TopicMaker, group: str
) -> None:
    topic = make_topic(2)
    for partition in (0, 1):
        fill(bootstrap, topic, 5, partition)
    seen: list[tuple[TopicPartition, int]] = []
    first = quick_consumer(topic, group, bootstrap, delivery="at-most-once")

    def gather() -> None:
        # Ends only when it is told to stop, long after the other one has come.
        seen.extend((each.place, each.offset) for each in first.poll_batch(1000, linger=WAIT_S))

    gathering = threading.Thread(target=gather)
    gathering.start()
    try:
        await_both_partitions(first)
        with quick_consumer(topic, group, bootstrap, delivery="at-most-once") as second:
            for _ in range(5):
                message = second.poll(WAIT_S)
                assert message is not None
                seen.append((message.place, message.offset))
            first.stop()
            gathering.join()
    finally:
        first.stop()
        gathering.join()
        first.close()
    assert sorted(seen) == [((topic, number), offset) for number in (0, 1) for offset in range(5)]


def await_both_partitions(consumer: Consumer) -> None:
    """Wait until the thread that polls it has something of both partitions waiting."""
    deadline = time.monotonic() + WAIT_S
    while len({each.partition() for each in list(consumer._intake._ahead)}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_commit_that_failed_is_not_repeated_after_a_later_one(
    bootstrap: str, ten: str, group: str
) -> None:
    place = TopicPartition(ten, 0)
    with quick_consumer(ten, group, bootstrap, commit_interval=0) as consumer:
        read(consumer, 5)
        consumer._intake._failed[place] = 2
        consumer.commit()
        consumer.poll(0)
        read(consumer, 1)
        consumer._intake._failed[place] = 3
        consumer.commit(wait=False)
        deadline = time.monotonic() + WAIT_S
        while consumer._intake._failed:
            consumer._intake._pump(0.05)
            assert time.monotonic() < deadline
        assert (consumer.committed()[place] or 0) >= 6


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_divide_and_one_takes_over(
    bootstrap: str, make_topic: TopicMaker, group: str, protocol: "object"
) -> None:
    topic = make_topic(2)
    told: list[Rebalance] = []
    first = quick_consumer(topic, group, bootstrap, protocol=protocol, on_rebalance=told.append)  # type: ignore[arg-type]
    second = quick_consumer(topic, group, bootstrap, protocol=protocol)  # type: ignore[arg-type]
    try:
        settle([first, second])
        assert first.assignment.isdisjoint(second.assignment)
        assert first.assignment | second.assignment == {(topic, 0), (topic, 1)}
        fill(bootstrap, topic, 3, 0)
        fill(bootstrap, topic, 3, 1)
        assert read(first, 3) == [0, 1, 2]
        assert read(second, 3) == [0, 1, 2]
        # A rebalance that is still under way on a busy machine would refuse the last commit.
        for member in (first, second) * 10:
            assert member.poll(0.05) is None
        settle([first, second])
        second.close()
        for _ in range(300):
            if len(first.assignment) == 2:
                break
            assert first.poll(0.1) is None, "what the other one had done came again"
        assert len(first.assignment) == 2
    finally:
        second.close()
        first.close()
    assert told[0].kind == "assigned"
    assert told[-1].kind == "revoked"


def settle(consumers: Iterable[Consumer]) -> None:
    """Poll until each has one partition; there is nothing to read yet."""
    members = list(consumers)
    for _ in range(600):
        if [len(member.assignment) for member in members] == [1] * len(members):
            return
        for member in members:
            assert member.poll(0.05) is None
    raise AssertionError([member.assignment for member in members])


def test_two_groups_each_see_everything(bootstrap: str, ten: str, group: str) -> None:
    with (
        quick_consumer(ten, group, bootstrap) as one,
        quick_consumer(ten, f"{group}-too", bootstrap) as other,
    ):
        assert read(one, 10) == list(range(10))
        assert read(other, 10) == list(range(10))


def test_a_static_member_takes_its_own_place(bootstrap: str, ten: str, group: str) -> None:
    with quick_consumer(ten, group, bootstrap, instance_id="a") as consumer:
        assert read(consumer, 2) == [0, 1]
    with quick_consumer(ten, group, bootstrap, instance_id="a") as consumer:
        assert read(consumer, 1) == [1]


def test_an_interrupt_ends_the_wait_and_commits_what_is_done(
    bootstrap: str, ten: str, group: str
) -> None:
    def read_until_interrupted() -> None:
        with quick_consumer(ten, group, bootstrap) as consumer:
            for message in consumer:
                if message.text == "9":
                    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()

    main = threading.get_ident()
    with pytest.raises(KeyboardInterrupt):
        read_until_interrupted()
    with quick_consumer(ten, group, bootstrap) as consumer:
        assert rest(consumer) == []
