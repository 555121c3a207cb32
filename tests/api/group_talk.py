"""Members of groups, as they talk to a broker without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.api.conftest import KEYS, build

from barnabas.ports.exchange import Later
from barnabas.wire.messages import version_type
from barnabas.wire.tolerant import field_type

if TYPE_CHECKING:
    from tests.api.conftest import House

SETTINGS = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
"""For houses with groups: nothing to wait for."""

MINUTE = timedelta(minutes=1)
PROTOCOLS = [{"name": "range", "metadata": b"meta"}]


def fitting(entity: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values that a version of a message has a field for."""
    kept = {}
    for field in fields(entity):
        if field.name not in values:
            continue
        value = values[field.name]
        inner, is_array, _, is_entity = field_type(field)
        if is_entity and value is not None:
            value = [fitting(inner, each) for each in value] if is_array else fitting(inner, value)
        kept[field.name] = value
    return kept


def frame(house: House, api: str, version: int, **body: Any) -> bytes:
    """A request, without what its version can not say."""
    entity = version_type(KEYS[api], version, "request")
    return house.frame(KEYS[api], version, build(entity, fitting(entity, body)))


def say(house: House, api: str, version: int, **body: Any) -> Any:
    """The answer to such a request."""
    answer = house.send(frame(house, api, version, **body))
    return house.decode(KEYS[api], version, answer)


def say_together(house: House, *requests: tuple[str, int, dict[str, Any]]) -> list[Any]:
    """The answers to requests that wait for each other."""

    async def ask() -> list[Any]:
        replies = [
            house.dispatch_once(house.peer, frame(house, api, version, **body))
            for api, version, body in requests
        ]
        waiting = [_frames(each) for each in replies]
        return await asyncio.wait_for(asyncio.gather(*waiting), 10)

    answers = house.run(ask())
    return [
        house.decode(KEYS[api], version, b"".join(answer))
        for (api, version, _), answer in zip(requests, answers, strict=True)
    ]


async def _frames(reply: Any) -> Any:
    return await reply.coroutine if isinstance(reply, Later) else reply


def coordinate(house: House) -> None:
    """Have groups coordinated: their topic exists and is loaded."""
    house.ask("find_coordinator", 4, coordinator_keys=["any"])

    async def wait_for_shards() -> None:
        while True:
            groups = await _frames(house.dispatch_once(house.peer, frame(house, "list_groups", 5)))
            told = house.decode(KEYS["list_groups"], 5, b"".join(groups))
            if told["error_code"] == "none":
                return
            assert told["error_code"] == "coordinator_load_in_progress"
            await asyncio.sleep(0)

    house.run(asyncio.wait_for(wait_for_shards(), 10))


def join_body(group: str, member: str = "", **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "session_timeout": MINUTE,
        "rebalance_timeout": MINUTE,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
        **more,
    }


def join(house: House, group: str, version: int = 9, **more: Any) -> Any:
    """The answer to a member that joins, and comes back with its id when it is told to."""
    answer = say(house, "join_group", version, **join_body(group, **more))
    if answer["error_code"] == "member_id_required":
        body = join_body(group, **{**more, "member": answer["member_id"]})
        answer = say(house, "join_group", version, **body)
    return answer


def sync_body(group: str, joined: Any, share: bytes = b"share", **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined["member_id"], "assignment": share}],
        **more,
    }


def settle(house: House, group: str, **more: Any) -> Any:
    """A stable group of one; how it joined."""
    joined = join(house, group, **more)
    assert joined["error_code"] == "none"
    assert say(house, "sync_group", 5, **sync_body(group, joined))["error_code"] == "none"
    return joined


def commit_body(group: str, topic: str, *offsets: tuple[int, int], **more: Any) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "note"}
        for index, offset in offsets
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": topic, "partitions": partitions}],
        **more,
    }
