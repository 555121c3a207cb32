"""kafkajs as members of groups."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from tests.compat.group_plays import Play, played, plays_of
from tests.compat.group_ways_clients import KAFKAJS

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        shutil.which("node") is None or shutil.which("npm") is None, reason="needs node and npm"
    ),
]
Results = dict[Play, "Future[None]"]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    with played(request) as futures:
        yield futures


@pytest.mark.parametrize("play", plays_of([KAFKAJS]), ids=str)
def test_group(play: Play, results: Results) -> None:
    results[play].result()
