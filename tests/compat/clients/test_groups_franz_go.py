"""franz-go as members of groups, by both protocols."""

import shutil
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from tests.compat.group_plays import Play, played, plays_of
from tests.compat.group_ways_clients import FRANZ_GO_WAYS

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs go"),
]
Results = dict[Play, "Future[None]"]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    with played(request) as futures:
        yield futures


@pytest.mark.parametrize("play", plays_of(FRANZ_GO_WAYS), ids=str)
def test_group(play: Play, results: Results) -> None:
    results[play].result()
