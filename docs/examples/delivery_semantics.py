"""Kill a consumer at every point of its work, and see what each promise of delivery is worth.

A topic holds eight records. A consumer in a process of its own works through them and is killed
(SIGKILL, no goodbye) while it works on the fourth; a second one takes over. "Work" is two writes
to a SQLite database, so that a half-done piece of work can be seen.

    python docs/examples/delivery_semantics.py                       with a broker of its own
    python docs/examples/delivery_semantics.py 127.0.0.1:9092        with one that runs
"""

import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import confluent_kafka

from barnabas.client import Admin, Consumer, Message, Producer, SqliteLedger

Mode = Literal["at-most-once", "at-least-once", "exactly-once"]
KillPoint = Literal["read", "half processed", "processed", "before commit", "after commit"]

MODES: tuple[Mode, ...] = get_args(Mode)
KILL_POINTS: tuple[KillPoint, ...] = get_args(KillPoint)
RECORDS = 8
FATAL_RECORD = 3
WAIT_S = 60.0


@dataclass(frozen=True)
class Job:
    """What one consumer process is to do, and where it dies."""

    bootstrap: str
    topic: str
    database: str
    mode: Mode
    kill_point: KillPoint | None


@dataclass(frozen=True)
class Outcome:
    """What the database says in the end."""

    mode: Mode
    kill_point: KillPoint
    lost: int
    repeated: int

    @property
    def exact(self) -> bool:
        """Every record was worked on once, and to the end."""
        return self.lost == 0 and self.repeated == 0


def die() -> None:
    """No finally, no atexit, no goodbye to the group."""
    os.kill(os.getpid(), signal.SIGKILL)


class DyingConsumer(confluent_kafka.Consumer):
    """Dies around the commit of the fatal record."""

    kill_point: KillPoint | None = None

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        """As ever, but for one offset."""
        fatal = any(each.offset == FATAL_RECORD + 1 for each in kwargs.get("offsets", ()))
        if fatal and self.kill_point == "before commit":
            die()
        if fatal and self.kill_point == "after commit":
            # Waited for, so that it has happened for sure.
            super().commit(offsets=kwargs["offsets"], asynchronous=False)
            die()
        return super().commit(*args, **kwargs)


class DyingLedger(SqliteLedger):
    """Dies around the commit of the fatal record's transaction."""

    kill_point: KillPoint | None = None

    def _commit(self, cursor: sqlite3.Cursor) -> None:
        cursor.execute("SELECT next_offset FROM barnabas_ledger")
        row = cursor.fetchone()
        fatal = row is not None and row[0] == FATAL_RECORD + 1
        if fatal and self.kill_point == "before commit":
            die()
        super()._commit(cursor)
        if fatal and self.kill_point == "after commit":
            die()


def work(job: Job) -> None:
    """The consumer process."""
    with consumer_for(job) as consumer:
        for message in consumer:
            process(message, job)
            if message.offset == RECORDS - 1:
                if job.mode != "at-most-once":
                    consumer.commit()
                break


@contextmanager
def consumer_for(job: Job) -> Iterator[Consumer]:
    """A consumer of the mode, with the death built in."""
    confluent_kafka.Consumer = DyingConsumer  # type: ignore[misc]
    ledger = None
    if job.mode == "exactly-once":
        ledger = DyingLedger(job.database)
        ledger.kill_point = job.kill_point
    else:
        DyingConsumer.kill_point = job.kill_point
    with Consumer(
        job.topic,
        f"{job.topic}-workers",
        job.bootstrap,
        delivery=job.mode,
        ledger=ledger,
        commit_every=1,
        # The successor has the same name, so the group need not wait until the dead one is missed.
        instance_id="worker",
        timeout=WAIT_S,
        config={"fetch.wait.max.ms": 50},
    ) as consumer:
        yield consumer


def process(message: Message, job: Job) -> None:
    """Two writes: in the message's transaction, or each on its own."""
    fatal = message.offset == FATAL_RECORD
    if fatal and job.kill_point == "read":
        die()
    if job.mode == "exactly-once":
        execute = message.transaction.execute
    else:
        connection = sqlite3.connect(job.database, isolation_level=None)
        execute = connection.execute
    execute("INSERT INTO begun VALUES (?)", (message.offset,))
    if fatal and job.kill_point == "half processed":
        die()
    execute("INSERT INTO finished VALUES (?)", (message.offset,))
    if fatal and job.kill_point == "processed":
        die()


def demonstrate(bootstrap: str, mode: Mode, kill_point: KillPoint, directory: Path) -> Outcome:
    """One consumer that dies, one that takes over, and what came of it."""
    topic = f"semantics-{uuid.uuid4().hex[:12]}"
    Admin(bootstrap).create_topic(topic, 1)
    with Producer(bootstrap, idempotent=False) as producer:
        for number in range(RECORDS):
            producer.post(topic, str(number))
    database = str(directory / f"{topic}.db")
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE begun (record INTEGER)")
        connection.execute("CREATE TABLE finished (record INTEGER)")
    first = _run(Job(bootstrap, topic, database, mode, kill_point))
    if first != -signal.SIGKILL:
        raise RuntimeError(f"{mode}, {kill_point}: the consumer was to be killed; it ended {first}")
    second = _run(Job(bootstrap, topic, database, mode, None))
    if second != 0:
        raise RuntimeError(f"{mode}, {kill_point}: the second consumer ended with {second}")
    return _outcome(mode, kill_point, database)


def _run(job: Job) -> int | None:
    # A fork of a server that has the imports behind it: a new interpreter each would take longer.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["confluent_kafka", "barnabas.client"])
    process = context.Process(target=work, args=(job,))
    process.start()
    process.join(WAIT_S)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode


def _outcome(mode: Mode, kill_point: KillPoint, database: str) -> Outcome:
    with sqlite3.connect(database) as connection:
        begun = [row[0] for row in connection.execute("SELECT record FROM begun")]
        finished = [row[0] for row in connection.execute("SELECT record FROM finished")]
    return Outcome(
        mode,
        kill_point,
        lost=len(set(range(RECORDS)) - set(finished)),
        repeated=sum(begun.count(record) > 1 for record in set(begun)),
    )


def main() -> None:
    """Every promise, every point: a table."""
    with tempfile.TemporaryDirectory() as directory, _broker() as bootstrap:
        row = "{:<15} {:<16} {:>7} {:>5} {:>9}   {}"
        print(row.format("promise", "killed", "records", "lost", "repeated", "exact?"))
        for mode in MODES:
            for kill_point in KILL_POINTS:
                found = demonstrate(bootstrap, mode, kill_point, Path(directory))
                exact = "exact" if found.exact else "no"
                print(
                    row.format(mode, kill_point, RECORDS, found.lost, found.repeated, exact),
                    flush=True,
                )


@contextmanager
def _broker() -> Iterator[str]:
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    from barnabas.testing import Broker

    with Broker(memory=True, config={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker.bootstrap_servers


if __name__ == "__main__":
    main()
