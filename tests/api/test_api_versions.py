"""ApiVersions: the table, and what a client that is too new is told."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from kio.serial import entity_reader

from barnabas.api.table import SERVED
from barnabas.wire.messages import version_type

if TYPE_CHECKING:
    from tests.api.conftest import House


def test_names_every_api_of_the_table_and_no_other(house: House) -> None:
    answer = house.ask("api_versions", 4, client_software_name="a", client_software_version="1")
    rows = {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}
    assert rows.keys() == SERVED.keys()
    assert rows[3] == (0, 13)
    assert rows[0] == (0, 13), "librdkafka wants Produce to begin at 0"


@pytest.mark.parametrize("version", [3, 4])
def test_consumer_groups_and_transactions_are_finalized_features(
    house: House, version: int
) -> None:
    body = {"client_software_name": "a", "client_software_version": "1"}
    answer = house.ask("api_versions", version, **body)
    assert answer["finalized_features_epoch"] >= 0
    assert answer["finalized_features"] == [
        {"name": "group.version", "max_version_level": 1, "min_version_level": 1},
        {"name": "transaction.version", "max_version_level": 2, "min_version_level": 2},
    ]
    supported = [
        {"name": "group.version", "min_version": 0, "max_version": 1},
        {"name": "transaction.version", "min_version": 0, "max_version": 2},
    ]
    assert answer["supported_features"] == (supported if version >= 4 else [])


def test_remembers_the_client_software(house: House) -> None:
    house.ask("api_versions", 3, client_software_name="rdkafka-1.x", client_software_version="2.6")
    assert house.peer.software == "rdkafka-1.x 2.6"


@pytest.mark.parametrize(
    ("name", "version"),
    [("", "1"), ("a b", "1"), ("-a", "1"), ("a.", "1"), ("a\n", "1"), ("a", ""), ("a", "1 0")],
)
def test_refuses_a_malformed_name(house: House, name: str, version: str) -> None:
    body: dict[str, Any] = {"client_software_name": name, "client_software_version": version}
    answer = house.ask("api_versions", 3, **body)
    assert answer["error_code"] == "invalid_request"
    assert answer["api_keys"] == []
    assert house.peer.software == ""


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_newer_client_is_told_what_to_ask_in_version_0(house: House, version: int) -> None:
    answer = house.send(struct.pack(">hhih", 18, version, 7, -1) + b"\0\x02a\x02b\0")
    assert answer[:4] == struct.pack(">i", 7)
    response, size = entity_reader(version_type(18, 0, "response"))(answer, 4)
    assert 4 + size == len(answer)
    assert response.error_code.name == "unsupported_version"
    (row,) = response.api_keys
    assert (row.api_key, row.min_version, row.max_version) == (18, 0, 4)
