"""DescribeCluster: who is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House


@pytest.mark.parametrize("house", [{"broker.rack": "r1"}], indirect=True)
def test_tells_the_brokers(house: House) -> None:
    answer = house.ask("describe_cluster", 2, endpoint_type=1)
    assert answer["error_code"] == "none"
    assert answer["cluster_id"] == house.cluster.image.cluster_id
    assert answer["controller_id"] == 1
    (broker,) = answer["brokers"]
    assert broker == {
        "broker_id": 1,
        "host": "broker.example",
        "port": 19092,
        "rack": "r1",
        "is_fenced": False,
    }
    assert answer["cluster_authorized_operations"] == -(2**31)


def test_authorized_operations(house: House) -> None:
    answer = house.ask("describe_cluster", 1, include_cluster_authorized_operations=True)
    assert answer["cluster_authorized_operations"] == 8096


@pytest.mark.parametrize(
    ("endpoint_type", "error", "message"),
    [
        (2, "mismatched_endpoint_type", "endpoint of type CONTROLLER"),
        (9, "unsupported_endpoint_type", "Unsupported endpoint type 9"),
    ],
)
def test_there_are_only_brokers(house: House, endpoint_type: int, error: str, message: str) -> None:
    answer = house.ask("describe_cluster", 1, endpoint_type=endpoint_type)
    assert answer["error_code"] == error
    assert message in answer["error_message"]
    assert (answer["brokers"], answer["cluster_id"]) == ([], "")
