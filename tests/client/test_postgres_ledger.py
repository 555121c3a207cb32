"""The ledger in a real PostgreSQL (`make test-clients`)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client import postgres
from tests.client.ledger_suite import EVENTS, WAIT_S, Database, LedgerSuite, at

from barnabas.client import FencedError, LedgerError, PostgresLedger

psycopg = pytest.importorskip("psycopg", reason="pip install 'barnabas[postgres]'")

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        postgres.programs() is None, reason="no PostgreSQL: apt-get install postgresql"
    ),
]


class Postgres(Database):
    mark = "%s"

    def __init__(self, address: str) -> None:
        self.address = address

    def ledger(self) -> PostgresLedger:
        return PostgresLedger(self.address)

    def connection(self) -> Any:
        return psycopg.connect(self.address)

    def ledger_on(self, connection: Any) -> PostgresLedger:
        return PostgresLedger(connection)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.running() as address:
        yield address


@pytest.fixture
def database(server: str) -> Postgres:
    made = Postgres(server)
    with made.connection() as connection:
        connection.execute("DROP TABLE IF EXISTS effects, barnabas_ledger")
    made.prepare()
    return made


class TestPostgresLedger(LedgerSuite):
    """The common suite."""


def test_a_stuck_zombie_stops_nobody_and_is_fenced(database: Postgres) -> None:
    """It has begun, and sleeps; the other one handles the message; then it wakes."""
    database.ledger().begin_at(EVENTS, 0)
    zombie = database.ledger()

    def sleep_and_wake() -> None:
        with zombie.once(at(0)) as cursor:
            database.note(cursor, "zombie", 100)
            with database.ledger() as other, other.once(at(0)) as others:
                database.note(others, "other", 1)

    with pytest.raises(FencedError, match="handled events"):
        sleep_and_wake()
    assert database.effects() == [1]


def test_two_who_start_at_once_make_one_table(database: Postgres) -> None:
    ready = threading.Barrier(4)
    problems: list[BaseException] = []

    def start() -> None:
        with database.ledger() as ledger:
            ready.wait(WAIT_S)
            try:
                ledger.position(EVENTS)
            except psycopg.Error as error:
                problems.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_role_that_may_not_create_uses_the_table_that_is_there(database: Postgres) -> None:
    database.ledger().begin_at(EVENTS, 5)
    with database.connection() as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT, INSERT, UPDATE ON barnabas_ledger TO reader")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with PostgresLedger(database.address.replace("user=barnabas", "user=reader")) as ledger:
        assert ledger.position(EVENTS) == 5
    with database.connection() as connection:
        connection.execute("DROP OWNED BY reader")


def test_no_commit_inside(database: Postgres) -> None:
    with database.ledger() as ledger, ledger.once(at(0)) as cursor:
        assert cursor is not None
        with pytest.raises(psycopg.ProgrammingError, match="commit"):
            cursor.connection.commit()


def test_a_database_that_does_not_answer() -> None:
    with pytest.raises(LedgerError, match="does not answer"):
        PostgresLedger("host=127.0.0.1 port=1 user=nobody connect_timeout=2")
