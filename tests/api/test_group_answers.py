"""Answers that are there, answers that come, and errors of either kind."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas.api.group_answers import answer_all, answer_one
from barnabas.model.errors import ErrorCode, KafkaError


def _refuse() -> int:
    raise KafkaError(ErrorCode.not_coordinator)


def _one(question: Any) -> Any:
    return answer_one(question, lambda value: f"told {value}", lambda error: error.code.name)


def _plain(answers: list[Any]) -> list[Any]:
    return [each.code.name if isinstance(each, KafkaError) else each for each in answers]


def test_what_is_there_needs_no_coroutine() -> None:
    assert _one(lambda: 5) == "told 5"
    assert _one(_refuse) == "not_coordinator"
    assert answer_all([lambda: 1, _refuse, lambda: 3], _plain) == [1, "not_coordinator", 3]
    assert answer_all([], _plain) == []


def test_what_comes_later_is_waited_for() -> None:
    asyncio.run(_what_comes_later_is_waited_for())


async def _what_comes_later_is_waited_for() -> None:
    loop = asyncio.get_running_loop()
    good, bad = loop.create_future(), loop.create_future()
    answers = [_one(lambda: good), _one(lambda: bad)]
    together = answer_all([lambda: good, lambda: 2, _refuse, lambda: bad], _plain)
    assert all(isinstance(each, Coroutine) for each in (*answers, together))
    good.set_result(1)
    bad.set_exception(KafkaError(ErrorCode.illegal_generation))
    assert [await each for each in answers] == ["told 1", "illegal_generation"]
    assert isinstance(together, Coroutine)
    assert await together == [1, 2, "not_coordinator", "illegal_generation"]


def test_a_defect_is_no_answer() -> None:
    asyncio.run(_a_defect_is_no_answer())


async def _a_defect_is_no_answer() -> None:
    broken = asyncio.get_running_loop().create_future()
    broken.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await _one(lambda: broken)
