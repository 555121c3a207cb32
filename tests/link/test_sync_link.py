"""The blocking driver against a small broker."""

import socket
from typing import Any

import pytest

from barnabas.link.sync import Link
from barnabas.model.errors import DecodeError
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages import encode_request, newest_type
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic

TOPIC_ID = bytes(range(16))


def find(*keys: str) -> Any:
    return newest_type(10, "request")(coordinator_keys=keys)


def produce_request(records: bytes, acks: int = -1) -> ProduceRequest:
    partition = ProducePartition(0, memoryview(records))
    return ProduceRequest(None, acks, 1000, [ProduceTopic("t", TOPIC_ID, [partition])])


def fetch_request(offset: int) -> FetchRequest:
    partition = FetchPartition(0, -1, offset, -1, -1, 2**20)
    topic = FetchTopic("t", TOPIC_ID, [partition])
    return FetchRequest(-1, -1, 0, 0, 2**20, 0, 0, -1, [topic], [])


@pytest.mark.parametrize("version", range(7))
def test_call_in_every_version(broker: Any, version: int) -> None:
    with Link("127.0.0.1", broker.port, client_id="me") as link:
        response = link.call(10, version, find("group"))
    (coordinator,) = response.coordinators
    assert (coordinator.node_id, coordinator.port) == (5, broker.port)
    assert broker.client_ids == {"me"}


@pytest.mark.parametrize(
    ("produce_version", "fetch_version"), [(3, 4), (8, 11), (12, 12), (13, 18)]
)
def test_records_come_back(broker: Any, produce_version: int, fetch_version: int) -> None:
    large = bytes(range(256)) * 12_000
    with Link("127.0.0.1", broker.port) as link:
        for offset, records in enumerate((b"small", large)):
            produced = link.produce(produce_version, produce_request(records))
            assert produced is not None
            assert produced.topics[0].partitions[0].base_offset == offset
        fetched = link.fetch(fetch_version, fetch_request(1))
    (result,) = fetched.topics[0].partitions
    assert result.high_watermark == 2
    assert result.records == large


def test_acks_zero_is_not_answered(broker: Any) -> None:
    with Link("127.0.0.1", broker.port) as link:
        assert link.produce(9, produce_request(b"lost in the post", acks=0)) is None
        assert link.fetch(12, fetch_request(0)).topics[0].partitions[0].records == (
            b"lost in the post"
        )


def test_several_may_be_sent_before_one_is_answered(broker: Any) -> None:
    with Link("127.0.0.1", broker.port) as link:
        for key in ("a", "bb", "ccc"):
            link.send_frame(10, 4, [encode_request(10, 4, find(key))])
        assert [link.receive_frame().question.correlation_id for _ in range(3)] == [0, 1, 2]


def test_many_pieces_are_sent_as_one_frame(broker: Any) -> None:
    body = encode_request(10, 4, find("x" * 2000))
    with Link("127.0.0.1", broker.port) as link:
        link.send_frame(10, 4, [body[at : at + 1] for at in range(len(body))])
        assert link.receive_frame().question.api_key == 10


def test_a_broker_that_hangs_up_is_an_error(broker: Any) -> None:
    with Link("127.0.0.1", broker.port) as link, pytest.raises(ConnectionError):
        link.call(10, 4, find("a coordinator that ends the call"))


def test_a_broker_that_says_nothing_times_out(broker: Any) -> None:
    with Link("127.0.0.1", broker.port, timeout_s=0.05) as link, pytest.raises(TimeoutError):
        link.call(10, 4, find("a coordinator that nobody finds"))


def test_an_answer_that_makes_no_sense_is_an_error(broker: Any) -> None:
    with Link("127.0.0.1", broker.port) as link, pytest.raises(DecodeError):
        link.call(10, 4, find("a coordinator that speaks in riddles"))


def test_nobody_there_is_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            Link("127.0.0.1", unused.getsockname()[1])
