"""A well-formed request of every API at every version is decoded, handled and answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import coordinate, join_body, say
from tests.api.txn_talk import SETTINGS, Identity, add_body
from tests.api.txn_talk import coordinate as coordinate_transactions

from barnabas.api.table import SERVED
from barnabas.model.errors import DecodeError
from barnabas.wire.apis import APIS

if TYPE_CHECKING:
    from tests.api.conftest import House

_PARTITION = {"partition_index": 0}
_PRODUCER = Identity("t", 1, 0)
_TOPIC = {"resource_type": 2, "resource_name": "there"}

_BODIES: dict[str, dict[str, Any]] = {
    "list_offsets": {
        "replica_id": -1,
        "topics": [{"name": "there", "partitions": [{**_PARTITION, "timestamp": 0}]}],
    },
    "metadata": {"topics": [{"name": "there"}, {"name": "new"}]},
    "find_coordinator": {"coordinator_keys": ["g", "h"]},
    "api_versions": {"client_software_name": "tests", "client_software_version": "1.0"},
    "create_topics": {"topics": [{"name": "new", "num_partitions": 2, "replication_factor": 1}]},
    "delete_topics": {"topics": [{"name": "there"}, {"name": "never"}]},
    "delete_records": {"topics": [{"name": "there", "partitions": [{**_PARTITION, "offset": 1}]}]},
    "init_producer_id": {"transactional_id": None},
    "add_partitions_to_txn": add_body(_PRODUCER, ("there", 0)),
    "add_offsets_to_txn": {**_PRODUCER.body, "group_id": "g"},
    "end_txn": {**_PRODUCER.body, "committed": True},
    "write_txn_markers": {
        "markers": [
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "transaction_result": True,
                "topics": [{"name": "there", "partition_indexes": [0]}],
            }
        ]
    },
    "txn_offset_commit": {
        **_PRODUCER.body,
        "group_id": "g",
        "generation_id": -1,
        "topics": [{"name": "there", "partitions": [{**_PARTITION, "committed_offset": 1}]}],
    },
    "describe_transactions": {"transactional_ids": ["t"]},
    "list_transactions": {"state_filters": ["Ongoing"], "duration_filter": -1},
    "offset_for_leader_epoch": {
        "topics": [{"topic": "there", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    },
    "describe_configs": {"resources": [{**_TOPIC, "configuration_keys": None}]},
    "alter_configs": {
        "resources": [{**_TOPIC, "configs": [{"name": "retention.ms", "value": "1"}]}]
    },
    "describe_log_dirs": {"topics": None},
    "create_partitions": {"topics": [{"name": "there", "count": 3, "assignments": None}]},
    "elect_leaders": {"election_type": 0, "topic_partitions": None},
    "incremental_alter_configs": {
        "resources": [
            {**_TOPIC, "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}]}
        ]
    },
    "alter_partition_reassignments": {
        "topics": [{"name": "there", "partitions": [{**_PARTITION, "replicas": [1]}]}]
    },
    "list_partition_reassignments": {"topics": None},
    "describe_cluster": {},
    "describe_producers": {"topics": [{"name": "there", "partition_indexes": [0]}]},
    "list_config_resources": {},
    "describe_topic_partitions": {"topics": [{"name": "there"}], "response_partition_limit": 10},
    "offset_commit": {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": "there", "partitions": [{**_PARTITION, "committed_offset": 1}]}],
    },
    "offset_fetch": {
        "group_id": "g",
        "topics": [{"name": "there", "partition_indexes": [0]}],
        "groups": [{"group_id": "g", "topics": [], "member_epoch": -1}],
    },
    "join_group": join_body("g"),
    "sync_group": {"group_id": "g", "protocol_type": "consumer", "protocol_name": "range"},
    "heartbeat": {"group_id": "g", "member_id": "m"},
    "leave_group": {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}]},
    "describe_groups": {"groups": ["g"]},
    "list_groups": {"states_filter": [], "types_filter": []},
    "delete_groups": {"groups_names": ["g"]},
    "offset_delete": {
        "group_id": "g",
        "topics": [{"name": "there", "partitions": [_PARTITION]}],
    },
    "consumer_group_heartbeat": {"group_id": "g", "member_id": "m", "member_epoch": 1},
    "consumer_group_describe": {"group_ids": ["g"]},
}

_OLD_FORMS: dict[str, tuple[int, dict[str, Any]]] = {
    "find_coordinator": (3, {"key": "g"}),
    "delete_topics": (5, {"topic_names": ["there", "never"]}),
}
"""What the versions up to a number ask in another form."""

_VERSIONS = [
    (name, version)
    for key, name in SERVED.items()
    if name in _BODIES
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


def _body(name: str, version: int) -> dict[str, Any]:
    until, old = _OLD_FORMS.get(name, (-1, {}))
    return old if version <= until else _BODIES[name]


def _only_known(name: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
    return {} if name == "api_versions" and version < 3 else body


def _errors(answer: Any) -> set[str]:
    if isinstance(answer, list):
        return {error for each in answer for error in _errors(each)}
    if not isinstance(answer, dict):
        return set()
    own = {answer["error_code"]} if "error_code" in answer else set()
    return own | {error for each in answer.values() for error in _errors(each)}


_EXPECTED = {
    "delete_topics": {"none", "unknown_topic_or_partition"},
    "offset_commit": {"none", "unknown_topic_id"},
    "join_group": {"none", "member_id_required"},
    "sync_group": {"unknown_member_id"},
    "heartbeat": {"unknown_member_id"},
    "leave_group": {"none", "unknown_member_id"},
    "describe_groups": {"none", "group_id_not_found"},
    "delete_groups": {"group_id_not_found"},
    "offset_delete": {"group_id_not_found"},
    "consumer_group_heartbeat": {"group_id_not_found"},
    "consumer_group_describe": {"group_id_not_found"},
    "add_partitions_to_txn": {"none", "invalid_producer_id_mapping"},
    "add_offsets_to_txn": {"invalid_producer_id_mapping"},
    "end_txn": {"invalid_producer_id_mapping"},
    "txn_offset_commit": {"none", "invalid_producer_id_mapping"},
    "describe_transactions": {"transactional_id_not_found"},
}
"""Groups and transactions that are asked for are not there; tests of their own have some."""


def test_every_message_api_is_here() -> None:
    assert _BODIES.keys() == set(SERVED.values()) - {"produce", "fetch"}


@pytest.mark.parametrize("house", [SETTINGS], indirect=True)
@pytest.mark.parametrize(("name", "version"), _VERSIONS)
def test_is_answered(house: House, name: str, version: int) -> None:
    house.topic("there", 2)
    house.append("there", 1, 2, 3)
    coordinate(house)
    coordinate_transactions(house)
    body = _only_known(name, version, _body(name, version))
    errors = _errors(say(house, name, version, **body))
    assert errors <= _EXPECTED.get(name, {"none"})


@pytest.mark.parametrize(("key", "version"), [(3, 99), (3, -1), (4, 0), (999, 0), (17, 0)])
def test_what_is_not_served_closes_the_connection(house: House, key: int, version: int) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(DecodeError):
        house.send(frame)


def test_a_message_cut_short_closes_the_connection(house: House) -> None:
    from barnabas.wire.headers import request_header

    with pytest.raises(DecodeError):
        house.send(request_header(3, 1, 7) + b"\0\0")
