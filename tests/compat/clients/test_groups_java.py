"""Kafka's own Java client as members of groups, by both protocols."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from tests.compat import real_kafka
from tests.compat.group_plays import Play, play_together, played, plays_of
from tests.compat.group_ways import CONFLUENT, CONFLUENT_CONSUMER
from tests.compat.group_ways_clients import JAVA, JAVA_CONSUMER, JAVA_WAYS

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        not real_kafka.available() or shutil.which("javac") is None, reason="needs javac"
    ),
]
PLAYS = [
    play_together((JAVA, CONFLUENT)),
    play_together((JAVA_CONSUMER, CONFLUENT_CONSUMER)),
    *plays_of(JAVA_WAYS),
]
Results = dict[Play, "Future[None]"]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    with played(request, at_once=3) as futures:
        yield futures


@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_group(play: Play, results: Results) -> None:
    results[play].result()
