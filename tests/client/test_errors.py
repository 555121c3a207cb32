"""Errors in our words, and a light import."""

import subprocess
import sys

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.client import (
    BrokerUnavailableError,
    ClientError,
    ConfigError,
    GroupNotEmptyError,
    NotAllowedError,
    TimedOutError,
    TopicNotFoundError,
)
from barnabas.client.errors import translated
from barnabas.model.errors import BarnabasError


@pytest.mark.parametrize(
    ("number", "kind", "code", "retriable"),
    [
        (KafkaError._TRANSPORT, BrokerUnavailableError, "TRANSPORT", True),
        (KafkaError._ALL_BROKERS_DOWN, BrokerUnavailableError, "ALL_BROKERS_DOWN", True),
        (KafkaError._TIMED_OUT, TimedOutError, "TIMED_OUT", True),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicNotFoundError, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (KafkaError.TOPIC_EXCEPTION, ConfigError, "INVALID_TOPIC_EXCEPTION", False),
        (KafkaError.NON_EMPTY_GROUP, GroupNotEmptyError, "NON_EMPTY_GROUP", False),
        (KafkaError.NOT_LEADER_FOR_PARTITION, ClientError, "NOT_LEADER_OR_FOLLOWER", True),
        (
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            NotAllowedError,
            "GROUP_AUTHORIZATION_FAILED",
            False,
        ),
    ],
)
def test_an_error_is_a_sentence_with_kafkas_name(
    number: int, kind: type[ClientError], code: str, retriable: bool
) -> None:
    error = translated(KafkaException(KafkaError(number)), "doing something")
    assert type(error) is kind
    assert isinstance(error, BarnabasError)
    assert (error.code, error.retriable, error.fatal) == (code, retriable, False)
    assert str(error).startswith("Doing something ")
    assert str(error).endswith(".")
    assert "KafkaError{" not in str(error)


def test_a_fatal_error_is_never_retriable() -> None:
    error = translated(KafkaError(KafkaError._TRANSPORT, "gone", fatal=True), "sending")
    assert error.fatal
    assert not error.retriable


def test_importing_the_client_does_not_load_the_library() -> None:
    code = "import sys, barnabas.client; print([m for m in HEAVY if m in sys.modules])"
    heavy = "HEAVY = 'confluent_kafka', 'psycopg', 'barnabas.broker', 'barnabas.wire'; "
    done = subprocess.run(
        [sys.executable, "-c", heavy + code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
