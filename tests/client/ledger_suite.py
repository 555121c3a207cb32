"""What every ledger promises, asked of each database in turn.

`Database` makes ledgers and plain connections to one and the same database, so that two consumers
can be played against each other, and a crash be looked at from outside.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.quick import quick_consumer

from barnabas.client import (
    ConfigError,
    FencedError,
    Ledger,
    LedgerError,
    Producer,
    TopicPartition,
)

EVENTS = TopicPartition("events", 0)
WAIT_S = 30.0
TopicMaker = Callable[..., str]


class Database(ABC):
    """One database with a table of effects."""

    mark = "?"

    @abstractmethod
    def ledger(self) -> Ledger[Any]:
        """A ledger with a connection of its own."""

    @abstractmethod
    def connection(self) -> Any:
        """A plain connection."""

    @abstractmethod
    def ledger_on(self, connection: Any) -> Ledger[Any]:
        """A ledger on a connection that is there."""

    def prepare(self) -> None:
        connection = self.connection()
        connection.execute("CREATE TABLE effects (place TEXT, n INTEGER)")
        connection.commit()
        connection.close()

    def note(self, cursor: Any, place: str, number: int) -> None:
        """One effect."""
        cursor.execute(f"INSERT INTO effects VALUES ({self.mark}, {self.mark})", (place, number))

    def effects(self) -> list[int]:
        """What another process sees."""
        connection = self.connection()
        try:
            rows = connection.execute("SELECT n FROM effects ORDER BY n").fetchall()
            return [row[0] for row in rows]
        finally:
            connection.close()


def at(offset: int, place: TopicPartition = EVENTS) -> SimpleNamespace:
    """A message of some other library."""
    return SimpleNamespace(topic=place.topic, partition=place.partition, offset=offset)


def note_failing(database: Database, ledger: Ledger[Any], offset: int) -> None:
    with ledger.once(at(offset)) as cursor:
        database.note(cursor, "events", offset)
        raise ZeroDivisionError


class LedgerSuite:
    """Inherited for each kind of database; `database` is a fixture."""

    def test_a_message_is_handled_once(self, database: Database) -> None:
        with database.ledger() as ledger:
            for offset in (0, 1, 1, 0, 2, 2):
                with ledger.once(at(offset)) as cursor:
                    if cursor is not None:
                        database.note(cursor, "events", offset)
            assert database.effects() == [0, 1, 2]
            assert ledger.position(EVENTS) == 3

    def test_a_new_process_remembers(self, database: Database) -> None:
        with database.ledger() as ledger, ledger.once(at(4)) as cursor:
            assert cursor is not None
        with database.ledger() as ledger:
            assert ledger.position(EVENTS) == 5
            with ledger.once(at(4)) as cursor:
                assert cursor is None
            # Offsets have gaps, in compacted topics and between transactions.
            with ledger.once(at(9)) as cursor:
                assert cursor is not None
            assert ledger.position(EVENTS) == 10

    def test_groups_and_partitions_are_apart(self, database: Database) -> None:
        with database.ledger() as ledger:
            with ledger.once(at(0), group="one") as cursor:
                assert cursor is not None
            with ledger.once(at(0), group="other") as cursor:
                assert cursor is not None
            with ledger.once(at(0, TopicPartition("events", 1)), group="one") as cursor:
                assert cursor is not None
            with ledger.once(at(0), group="one") as cursor:
                assert cursor is None

    def test_an_exception_undoes_effect_and_memory(self, database: Database) -> None:
        with database.ledger() as ledger:
            with pytest.raises(ZeroDivisionError):
                note_failing(database, ledger, 0)
            assert database.effects() == []
            assert ledger.position(EVENTS) is None
            with ledger.once(at(0)) as cursor:
                assert cursor is not None
                database.note(cursor, "events", 0)
            assert database.effects() == [0]

    def test_nothing_is_seen_before_the_end(self, database: Database) -> None:
        with database.ledger() as ledger:
            with ledger.once(at(0)) as cursor:
                assert cursor is not None
                database.note(cursor, "events", 0)
                assert database.effects() == []
            assert database.effects() == [0]

    def test_of_two_who_handle_one_message_one_wins(self, database: Database) -> None:
        """Whether the other one waits, sees it done, or is fenced at the end: one effect."""
        database.ledger().position(EVENTS)
        started = threading.Barrier(2)
        outcomes: list[str] = []

        def handle() -> None:
            with database.ledger() as ledger:
                started.wait(WAIT_S)
                try:
                    with ledger.once(at(0)) as cursor:
                        outcome = "seen" if cursor is None else "done"
                        if cursor is not None:
                            database.note(cursor, "events", 0)
                except FencedError:
                    outcome = "fenced"
                outcomes.append(outcome)

        threads = [threading.Thread(target=handle) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 2
        assert outcomes.count("done") == 1
        assert database.effects() == [0]

    def test_moving_and_forgetting_by_hand(self, database: Database) -> None:
        with database.ledger() as ledger:
            assert ledger.begin_at(EVENTS, 7) == 7
            assert ledger.begin_at(EVENTS, 3) == 7
            ledger.move(EVENTS, 2)
            assert ledger.position(EVENTS) == 2
            ledger.forget(EVENTS)
            assert ledger.position(EVENTS) is None
            with pytest.raises(ConfigError, match="0 or more"):
                ledger.move(EVENTS, -1)

    def test_a_connection_of_ones_own(self, database: Database) -> None:
        connection = database.connection()
        with database.ledger_on(connection) as ledger, ledger.once(at(0)) as cursor:
            database.note(cursor, "events", 0)
        assert database.effects() == [0]
        database.note(connection.cursor(), "other", 1)
        with pytest.raises(LedgerError, match="open transaction"):
            ledger.position(EVENTS)
        connection.rollback()
        assert ledger.position(EVENTS) == 1
        connection.close()

    def test_what_is_no_message_is_refused(self, database: Database) -> None:
        with (
            database.ledger() as ledger,
            pytest.raises(ConfigError, match="does not tell its topic"),
            ledger.once({"topic": "events"}),
        ):
            pass

    # From here on with a broker.

    def test_a_consumer_with_a_ledger(
        self, database: Database, bootstrap: str, make_topic: TopicMaker, group: str
    ) -> None:
        topic = filled(bootstrap, make_topic, 6)
        with database.ledger() as ledger:
            with quick_consumer(
                topic, group, bootstrap, delivery="exactly-once", ledger=ledger, timeout=WAIT_S
            ) as consumer:
                for message in consumer:
                    database.note(message.transaction, "events", int(message.text))
                    if message.text == "3":
                        break
            # The loop was left: the fourth message was undone.
            assert database.effects() == [0, 1, 2]
            assert ledger.position(TopicPartition(topic, 0), group=group) == 3
            with quick_consumer(
                topic, group, bootstrap, delivery="exactly-once", ledger=ledger, timeout=WAIT_S
            ) as consumer:
                for message in consumer:
                    database.note(message.transaction, "events", int(message.text))
                    if message.text == "5":
                        consumer.commit()
                        break
                assert consumer.lag() == {TopicPartition(topic, 0): 0}
            assert database.effects() == [0, 1, 2, 3, 4, 5]

    def test_a_failing_loop_begins_again_where_it_failed(
        self, database: Database, bootstrap: str, make_topic: TopicMaker, group: str
    ) -> None:
        topic = filled(bootstrap, make_topic, 4)
        failures = ["2", "2", "0"]
        with (
            database.ledger() as ledger,
            quick_consumer(
                topic, group, bootstrap, delivery="exactly-once", ledger=ledger, timeout=WAIT_S
            ) as consumer,
        ):

            def work() -> None:
                for message in consumer:
                    database.note(message.transaction, "events", int(message.text))
                    if failures and failures[-1] == message.text:
                        failures.pop()
                        raise ZeroDivisionError
                    if message.text == "3":
                        consumer.commit()
                        return

            for _ in range(3):
                with pytest.raises(ZeroDivisionError):
                    work()
            work()
        assert database.effects() == [0, 1, 2, 3]

    def test_a_batch_is_one_transaction(
        self, database: Database, bootstrap: str, make_topic: TopicMaker, group: str
    ) -> None:
        topic = filled(bootstrap, make_topic, 5)
        with (
            database.ledger() as ledger,
            quick_consumer(
                topic, group, bootstrap, delivery="exactly-once", ledger=ledger, timeout=WAIT_S
            ) as consumer,
        ):
            batches = consumer.batches(3, linger=0.5)
            first = next(batches)
            for message in first:
                database.note(message.transaction, "events", int(message.text))
            assert database.effects() == []
            second = next(batches)
            assert [len(first), len(second)] == [3, 2]
            assert database.effects() == [0, 1, 2]

    def test_a_zombie_is_undone_and_goes_on_where_the_other_is(
        self, database: Database, bootstrap: str, make_topic: TopicMaker, group: str
    ) -> None:
        """Two consumers with one name on one partition, as when a group took one for dead."""
        topic = filled(bootstrap, make_topic, 4)
        place = TopicPartition(topic, 0)
        with (
            database.ledger() as ledger,
            quick_consumer(
                None, group, bootstrap, assign=[place], delivery="exactly-once", ledger=ledger
            ) as zombie,
        ):
            message = zombie.poll(WAIT_S)
            assert message is not None
            zombie.commit()
            # Another one handles what the zombie has fetched already.
            with database.ledger() as other:
                for offset in (1, 2):
                    with other.once(at(offset, place), group=group) as cursor:
                        database.note(cursor, "other", offset)
            message = zombie.poll(WAIT_S)
            assert message is not None
            assert message.text == "3"
            database.note(message.transaction, "zombie", 3)
            zombie.commit()
        assert database.effects() == [1, 2, 3]

    def test_going_back_needs_the_ledger(
        self, database: Database, bootstrap: str, make_topic: TopicMaker, group: str
    ) -> None:
        topic = filled(bootstrap, make_topic, 3)
        place = TopicPartition(topic, 0)
        with database.ledger() as ledger:
            with quick_consumer(
                topic, group, bootstrap, delivery="exactly-once", ledger=ledger
            ) as consumer:
                assert consumer.poll(WAIT_S) is not None
                with pytest.raises(ConfigError, match="transaction is open"):
                    consumer.rewind()
                consumer.commit()
                with pytest.raises(ConfigError, match=r"ledger\.move"):
                    consumer.rewind()
                consumer.skip(1)
                message = consumer.poll(WAIT_S)
                assert message is not None
                assert message.text == "2"
            ledger.move(place, 0, group=group)
            with quick_consumer(
                topic, group, bootstrap, delivery="exactly-once", ledger=ledger
            ) as consumer:
                message = consumer.poll(WAIT_S)
                assert message is not None
                assert message.text == "0"
            ledger.move(place, 99, group=group)
            with (
                quick_consumer(
                    topic, group, bootstrap, delivery="exactly-once", ledger=ledger
                ) as consumer,
                pytest.raises(LedgerError, match="which ends at 3"),
            ):
                consumer.poll(WAIT_S)


def filled(bootstrap: str, make_topic: TopicMaker, count: int) -> str:
    """A topic of one partition with the numbers 0, 1, …"""
    topic = make_topic()
    with Producer(bootstrap, idempotent=False) as producer:
        for number in range(count):
            producer.post(topic, str(number))
    return topic
