"""What is asked again, what is not, and what is said in the end."""

import logging

import pytest

from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.spark.cluster import retrying as module
from barnabas.spark.cluster.retrying import ASKED_AGAIN, Patience, retrying
from barnabas.spark.errors import FencedError, NotAnsweredError, SparkJobError

PASSING = [
    ConnectionResetError("the broker has hung up"),
    TimeoutError(),
    DecodeError("riddles"),
    *(KafkaError(code) for code in sorted(ASKED_AGAIN)),
]


@pytest.mark.parametrize("problem", PASSING, ids=repr)
def test_what_passes_is_asked_again(problem: Exception) -> None:
    problems = [problem, problem]
    forgotten = []

    def attempt() -> str:
        if problems:
            raise problems.pop()
        return "done"

    found = retrying("Trying", attempt, limit_s=60, between=lambda: forgotten.append(len(problems)))
    assert found == "done"
    assert forgotten == [1, 0]


@pytest.mark.parametrize(
    "code", [code for code in ErrorCode if code not in (*ASKED_AGAIN, ErrorCode.none)]
)
def test_what_does_not_pass_is_asked_once(code: ErrorCode) -> None:
    asked = []

    def attempt() -> None:
        asked.append(code)
        raise KafkaError(code, "says the broker")

    with pytest.raises(SparkJobError) as caught:
        retrying("Trying", attempt, limit_s=60, between=lambda: None)
    assert len(asked) == 1
    assert str(caught.value).startswith("Trying is refused")
    assert code.name.upper() in str(caught.value)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (ErrorCode.producer_fenced, "a newer run"),
        (ErrorCode.invalid_producer_epoch, "a newer run"),
        (ErrorCode.invalid_producer_id_mapping, "transactional.id.expiration.ms"),
    ],
)
def test_a_fenced_producer_is_told_so(code: ErrorCode, why: str) -> None:
    with pytest.raises(FencedError, match=why):
        Patience("Committing", 60).wait_after(KafkaError(code))


def test_other_exceptions_pass_through() -> None:
    def attempt() -> None:
        raise SparkJobError("a sentence already")

    with pytest.raises(SparkJobError, match=r"^a sentence already$"):
        retrying("Trying", attempt, limit_s=60, between=lambda: None)


def test_patience_ends_with_the_last_problem() -> None:
    def attempt() -> None:
        raise KafkaError(ErrorCode.not_coordinator)

    with pytest.raises(NotAnsweredError) as caught:
        retrying("Trying hard", attempt, limit_s=0.1, between=lambda: None)
    assert str(caught.value) == (
        "Trying hard was tried for 0 s (kafka.default.api.timeout.ms): NOT_COORDINATOR."
    )
    assert isinstance(caught.value.__cause__, KafkaError)


def test_success_gives_new_patience() -> None:
    patience = Patience("Reading", 0.0)
    with pytest.raises(NotAnsweredError):
        patience.wait_after(TimeoutError())
    patience = Patience("Reading", 60)
    for _ in range(3):
        patience.wait_after(TimeoutError())
        patience.renew()


def test_a_long_wait_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_SILENT_S", 0.0)
    patience = Patience("Asking orders-0", 60)
    with caplog.at_level(logging.WARNING, "barnabas.spark"):
        patience.wait_after(ConnectionRefusedError("Connection refused"))
        patience.wait_after(ConnectionRefusedError("Connection refused"))
    (line,) = caplog.messages
    assert line.startswith("Asking orders-0: Connection refused; trying for ")
