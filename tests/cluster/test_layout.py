"""The stored JSON is Kafka's."""

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster import layout
from barnabas.cluster.image import BrokerNode, PartitionState
from barnabas.model.errors import BarnabasError


def test_documents_have_kafkas_fields() -> None:
    topic_id = uuid.UUID("2f1a5c3e-0b4d-4e6f-8a9b-0c1d2e3f4a5b")
    state = PartitionState(1, 4, (1, 2), (1,), 7)
    assert json.loads(layout.encode_cluster_id("abc")) == {"version": "1", "id": "abc"}
    assert json.loads(layout.encode_topic(topic_id, [(0,), (1, 0)])) == {
        "version": 3,
        "topic_id": "LxpcPgtNTm-KmwwdLj9KWw",
        "partitions": {"0": [0], "1": [1, 0]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert json.loads(layout.encode_state(state, 3)) == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 4,
        "isr": [1],
        "controller_epoch": 3,
        "replicas": [1, 2],
    }
    assert json.loads(layout.encode_config({"a": "b"})) == {"version": 1, "config": {"a": "b"}}
    assert json.loads(layout.encode_producer_ids(2, range(1000, 2000))) == {
        "version": 1,
        "broker": 2,
        "block_start": "1000",
        "block_end": "1999",
    }
    assert json.loads(layout.encode_controller(2, 9)) == {
        "version": 1,
        "brokerid": 2,
        "timestamp": "9",
    }


@pytest.mark.parametrize("rack", [None, "a"])
@pytest.mark.parametrize("host", ["localhost", "::1"])
def test_a_broker_is_read_back(host: str, rack: str | None) -> None:
    node = BrokerNode(3, host, 9092, rack)
    data = layout.encode_broker(node, 5, "d")
    assert layout.decode_broker(3, data) == node
    endpoint = "PLAINTEXT://[::1]:9092" if host == "::1" else "PLAINTEXT://localhost:9092"
    assert json.loads(data)["endpoints"] == [endpoint]


REPLICAS = st.lists(st.lists(st.integers(0, 9), min_size=1).map(tuple), min_size=1, max_size=20)


@given(topic_id=st.uuids(), replicas=REPLICAS)
def test_a_topic_is_read_back(topic_id: uuid.UUID, replicas: list[tuple[int, ...]]) -> None:
    assert layout.decode_topic("t", layout.encode_topic(topic_id, replicas)) == (topic_id, replicas)


def test_other_documents_are_read_back() -> None:
    state = PartitionState(1, 4, (1, 2), (1,), 7)
    assert layout.decode_state("/s", layout.encode_state(state, 3), (1, 2), 7) == state
    gone = PartitionState(-1, 4, (1, 2), (1,), 7, emptied=(1,))
    assert layout.decode_state("/s", layout.encode_state(gone, 3), (), 7) == gone
    assert layout.decode_producer_ids(layout.encode_producer_ids(0, range(5))) == range(5)
    assert layout.decode_config("/c", layout.encode_config({"a": "ü"})) == {"a": "ü"}
    assert layout.decode_controller(layout.encode_controller(4, 0)) == 4
    assert layout.decode_cluster_id(layout.encode_cluster_id("x")) == "x"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff"])
def test_damage_is_named_with_its_path(data: bytes) -> None:
    with pytest.raises(BarnabasError, match="/config/topics/t"):
        layout.decode_config(layout.topic_config_path("t"), data)
