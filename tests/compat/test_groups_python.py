"""The Python libraries as members of groups."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from tests.compat.group_plays import Play, play_together, played, plays_of
from tests.compat.group_ways import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, PYTHON_WAYS

PLAYS = [play_together((CONFLUENT, KAFKA_PYTHON, AIOKAFKA)), *plays_of(PYTHON_WAYS)]
Results = dict[Play, "Future[None]"]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    with played(request) as futures:
        yield futures


@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_group(play: Play, results: Results) -> None:
    results[play].result()
