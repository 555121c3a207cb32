"""The assignors give what Kafka's own give for the same group in the same order."""

import pytest
from tests.compat import real_kafka
from tests.coordinator.assignors.asking_kafka import (
    ANSWERS,
    ask_kafka,
    questions,
    read_question,
    write_answer,
    write_question,
)

from barnabas.coordinator.assignors import ASSIGNORS


def test_recorded_answers_of_kafka() -> None:
    lines = ANSWERS.read_text(encoding="utf-8").splitlines()
    kinds = set()
    for asked, answer in zip(lines[::2], lines[1::2], strict=True):
        assignor, spec = read_question(asked)
        kinds.add(tuple(asked.split("|")[:2]))
        assert write_question(assignor, spec) == asked
        assert write_answer(ASSIGNORS[assignor].assign(spec)) == answer, asked
    assert len(kinds) == 4, "both assignors, with the same and with different subscriptions"


@pytest.mark.clients
@pytest.mark.skipif(not real_kafka.available(), reason="needs Java, and Maven once")
def test_answers_of_kafka_now() -> None:
    asked = [question for seed in range(1_000, 1_400) for question in questions(seed)]
    answers = ask_kafka(asked)
    assert len(answers) == len(asked)
    for (assignor, spec), answer in zip(asked, answers, strict=True):
        ours = write_answer(ASSIGNORS[assignor].assign(spec))
        assert ours == answer, write_question(assignor, spec)
