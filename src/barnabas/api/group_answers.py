"""From what the group coordinator says, now or later, to the answer of an API.

Most answers are there at once, and then no coroutine is made: heart-beats come by the thousand.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias, TypeVar

from barnabas.api.context import Call
from barnabas.api.typed import i64
from barnabas.coordinator.group.asks import Client, LastRebalance
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.limits import ERROR_MESSAGE_CHARS_MAX
from barnabas.wire.shapes import last_rebalance as shape

T = TypeVar("T")
R = TypeVar("R")

Answer: TypeAlias = T | asyncio.Future[T]
Eventually: TypeAlias = R | Coroutine[Any, Any, R]
"""A response, or a coroutine of it: what a handler may return."""


def client_of(call: Call) -> Client:
    """Who asks, as descriptions of a group show it."""
    return Client(id=call.header.client_id or "", host=f"/{call.peer.remote[0]}")


def require_group_id(group_id: str) -> None:
    """Raise INVALID_GROUP_ID, for the APIs that do not take the empty name."""
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id)


def told_rebalance(last: LastRebalance | None) -> shape.LastRebalance:
    """The last rebalance, as the descriptions of groups carry it."""
    if last is None:
        return shape.NOT_REMEMBERED
    return shape.LastRebalance(reason=last.reason[:ERROR_MESSAGE_CHARS_MAX], at_ms=i64(last.at_ms))


def answer_one(
    question: Callable[[], Answer[T]],
    told: Callable[[T], R],
    refused: Callable[[KafkaError], R],
) -> Eventually[R]:
    """The response to one question: what `told` makes of its answer, or `refused` of its error."""
    try:
        answer = question()
    except KafkaError as error:
        return refused(error)
    if isinstance(answer, asyncio.Future):
        return _one_later(answer, told, refused)
    return told(answer)


async def _one_later(
    answer: "asyncio.Future[T]", told: Callable[[T], R], refused: Callable[[KafkaError], R]
) -> R:
    try:
        value = await answer
    except KafkaError as error:
        return refused(error)
    return told(value)


def answer_all(
    questions: Iterable[Callable[[], Answer[T]]], told: Callable[[list[T | KafkaError]], R]
) -> Eventually[R]:
    """The response to many questions: what `told` makes of their answers and errors, in order."""
    answers = [_asked(each) for each in questions]
    if any(isinstance(each, asyncio.Future) for each in answers):
        return _all_later(answers, told)
    return told([each for each in answers if not isinstance(each, asyncio.Future)])


def _asked(question: Callable[[], Answer[T]]) -> Answer[T] | KafkaError:
    try:
        return question()
    except KafkaError as error:
        return error


async def _all_later(
    answers: list[Answer[T] | KafkaError], told: Callable[[list[T | KafkaError]], R]
) -> R:
    settled: list[T | KafkaError] = []
    for answer in answers:
        try:
            settled.append(await answer if isinstance(answer, asyncio.Future) else answer)
        except KafkaError as error:
            settled.append(error)
    return told(settled)
