"""How transactions of librdkafka's producers are ended, whatever the broker is going through."""

import logging
import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

CALL_S: Final = 10.0
PATIENCE_S: Final = 120.0
RETRY_S: Final = 0.02

_MUTE: Final = logging.getLogger("librdkafka")
_MUTE.disabled = True
"""Who is fenced hears it by an exception; librdkafka would also print it."""

SOON: Final = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "log_level": 0,
    "metadata.recovery.strategy": "none",
    "logger": _MUTE,
}
"""A dead broker is back within a second: look for it often, and say nothing of its absence.

Without the line about metadata librdkafka (2.16) forgets a broker that is away, makes a new one of
the same number when it is back, and waits for ever for the old one to take a transaction's offsets.
"""


class FencedError(Exception):
    """The producer can not go on: another one has its id, or nobody knows what became of it."""


def error_of(exception: KafkaException) -> KafkaError:
    """What librdkafka says."""
    error: KafkaError = exception.args[0]
    return error


def transactional_producer(address: str, transactional_id: str, **settings: object) -> Producer:
    """A producer that owns its id from now on."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
            "linger.ms": 2,
            **SOON,
            **settings,
        }
    )
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            producer.init_transactions(CALL_S)
        except KafkaException as problem:
            _go_on_or_raise(problem, deadline)
        else:
            return producer


def commit(producer: Producer) -> str:
    """Commit; "ok", "fail" (it was aborted), or FencedError when nobody knows."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            producer.commit_transaction(CALL_S)
        except KafkaException as problem:
            if error_of(problem).txn_requires_abort():
                abort(producer)
                return "fail"
            _go_on_or_raise(problem, deadline)
        else:
            return "ok"


def abort(producer: Producer) -> None:
    """Abort, or FencedError."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            producer.abort_transaction(CALL_S)
        except KafkaException as problem:
            _go_on_or_raise(problem, deadline)
        else:
            return


def _go_on_or_raise(problem: KafkaException, deadline: float) -> None:
    error = error_of(problem)
    if not error.retriable() or time.monotonic() > deadline:
        raise FencedError(str(error)) from problem
    time.sleep(RETRY_S)
