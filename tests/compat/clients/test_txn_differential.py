"""Barnabas answers transaction scenarios as Apache Kafka does, but for explained differences."""

import pytest
from tests.compat import real_kafka
from tests.compat.clients.group_differential import Answers, ask, barnabas, differences, kafka
from tests.compat.clients.group_known_differences import unexplained, unneeded
from tests.compat.clients.txn_differential import STAGES
from tests.compat.clients.txn_known_differences import KNOWN
from tests.compat.clients.txn_probe import TxnProbe

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not real_kafka.available(), reason="needs Java, and Maven once"),
]


@pytest.fixture(scope="module")
def both() -> tuple[Answers, Answers]:
    return (
        ask(kafka, stages=STAGES, asker=TxnProbe),
        ask(barnabas, stages=STAGES, asker=TxnProbe),
    )


def test_kafka_played_every_scenario_to_its_end(both: tuple[Answers, Answers]) -> None:
    assert len(both[0]) > 10 * sum(len(stage.scenarios) for stage in STAGES)
    assert [name for name in both[0] if name.endswith(": broken off")] == []


def test_the_answers_are_alike(both: tuple[Answers, Answers]) -> None:
    assert unexplained(differences(*both), KNOWN) == []


def test_every_explanation_is_still_needed(both: tuple[Answers, Answers]) -> None:
    assert unneeded(differences(*both), KNOWN) == []
