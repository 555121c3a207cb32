"""Barnabas answers raw requests as Apache Kafka does, but for differences that are explained."""

import re

import pytest
from tests.compat import real_kafka
from tests.compat.clients.differential import (
    SCENARIOS,
    Answers,
    ask_barnabas,
    ask_kafka,
    differences,
)
from tests.compat.clients.known_differences import KNOWN, unexplained

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not real_kafka.available(), reason="needs Java, and Maven once"),
]


@pytest.fixture(scope="module")
def both() -> tuple[Answers, Answers]:
    return ask_kafka(), ask_barnabas()


def test_the_answers_are_alike(both: tuple[Answers, Answers]) -> None:
    assert len(both[0]) > 10 * len(SCENARIOS)
    assert unexplained(differences(*both)) == []


def test_every_explanation_is_still_needed(both: tuple[Answers, Answers]) -> None:
    lines = list(differences(*both))
    assert [row for row in KNOWN if not any(re.search(row[0], line) for line in lines)] == []
