"""One broker behind a road for the tests of a file; each gives its topics and groups a name."""

from collections.abc import Iterator

import pytest
from tests.spark.cluster.stage import Stage

from barnabas.spark.cluster.cluster import Cluster


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """In memory."""
    with Stage() as stage:
        yield stage


@pytest.fixture
def cluster(stage: Stage) -> Cluster:
    """The stage's."""
    return stage.cluster
