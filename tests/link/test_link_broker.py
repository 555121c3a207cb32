"""A broker on a blocking link, and the versions it agrees on."""

from collections.abc import Iterator

import pytest

from barnabas.link.broker import Broker
from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.testing import Broker as RealBroker
from barnabas.wire.apis import APIS, FETCH, PRODUCE
from barnabas.wire.messages import newest_type

FIND_COORDINATOR = 10
CREATE_TOKEN = 38


@pytest.fixture(scope="module")
def real() -> Iterator[RealBroker]:
    with RealBroker() as real:
        yield real


@pytest.fixture
def linked(real: RealBroker) -> Iterator[Broker]:
    with Broker(Link(real.host, real.port)) as linked:
        yield linked


def test_the_newest_version_of_both_sides(linked: Broker) -> None:
    assert linked.version(FETCH) == APIS[FETCH].max_version
    assert linked.version(PRODUCE, at_most=11) == 11
    assert linked.version(PRODUCE, at_most=99) == APIS[PRODUCE].max_version


def test_features_are_those_the_cluster_agreed_on(linked: Broker) -> None:
    assert linked.features["transaction.version"] == 2


@pytest.mark.parametrize("at_most", [None, 0, 3, 4])
def test_asking_in_any_version(linked: Broker, at_most: int | None) -> None:
    request = newest_type(FIND_COORDINATOR, "request")(coordinator_keys=("group",))
    answer = linked.ask(FIND_COORDINATOR, request, at_most=at_most)
    assert len(answer.coordinators) == 1


def test_what_it_does_not_know_is_not_asked(linked: Broker) -> None:
    assert not linked.speaks(CREATE_TOKEN)
    with pytest.raises(KafkaError, match="does not know create_delegation_token") as caught:
        linked.version(CREATE_TOKEN)
    assert caught.value.code is ErrorCode.unsupported_version
    assert not linked.closed


def test_a_broken_link_is_closed(real: RealBroker) -> None:
    linked = Broker(Link(real.host, real.port))
    assert linked.speaks(FIND_COORDINATOR)
    linked.link.close()
    request = newest_type(FIND_COORDINATOR, "request")(coordinator_keys=("group",))
    with pytest.raises(OSError, match="Bad file descriptor"):
        linked.ask(FIND_COORDINATOR, request)
    assert linked.closed
