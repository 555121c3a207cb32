"""What members and those who look at groups ask a simulated broker."""

import asyncio
import dataclasses
from typing import Any, Final

from tests.broker.conftest import Life
from tests.chaos import group_asks, talk
from tests.compat.raw import from_plain

from barnabas.model.errors import ErrorCode
from barnabas.model.topics import CONSUMER_OFFSETS
from barnabas.wire.messages import newest_type
from barnabas.wire.shapes.last_rebalance import NOT_REMEMBERED
from barnabas.wire.stored.consumer_protocol import (
    Subscription,
    encode_assignment,
    encode_subscription,
)

TOPIC: Final = "events"
ONE_SHARD: Final = {
    "offsets_topic_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
}
_VERSIONS: Final = {**group_asks.VERSIONS, talk.INCREMENTAL_ALTER_CONFIGS: 1}
_LONG_MS: Final = 30 * 60_000


async def ask(life: Life, key: int, body: dict[str, Any]) -> Any:
    """The answer to one request."""
    request = from_plain(newest_type(key, "request"), body)
    return await life.client.link.call(key, _VERSIONS[key], request)


async def coordinate(life: Life) -> None:
    """Have the coordinator found and loaded."""
    await ask(life, group_asks.FIND_COORDINATOR, {"coordinator_keys": ["any"]})
    while isinstance(await committed(life, "any"), ErrorCode):
        await asyncio.sleep(0.01)


async def sync_each_commit(life: Life) -> None:
    """Let every write of the coordinator be durable before it is answered."""
    change = {"name": "flush.messages", "config_operation": 0, "value": "1"}
    resource = {"resource_type": 2, "resource_name": CONSUMER_OFFSETS, "configs": [change]}
    body = {"resources": [resource]}
    (told,) = (await ask(life, talk.INCREMENTAL_ALTER_CONFIGS, body)).responses
    assert told.error_code is ErrorCode.none


async def commit(life: Life, group: str, offsets: dict[int, int], filler: str = "") -> None:
    """Commit without being a member; the metadata repeats the offset."""
    rows = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_metadata": f"{offset} {filler}",
        }
        for partition, offset in offsets.items()
    ]
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": TOPIC, "partitions": rows}],
    }
    answer = await ask(life, group_asks.OFFSET_COMMIT, body)
    assert set(group_asks.commit_results(answer).values()) == {ErrorCode.none}


async def committed(life: Life, group: str) -> dict[int, tuple[int, str]] | ErrorCode:
    """Offset and metadata of each partition."""
    row = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
    (told,) = (await ask(life, group_asks.OFFSET_FETCH, {"groups": [row]})).groups
    if told.error_code is not ErrorCode.none:
        code: ErrorCode = told.error_code
        return code
    return {
        int(each.partition_index): (int(each.committed_offset), each.metadata)
        for topic in told.topics
        for each in topic.partitions
    }


async def join_classic(life: Life, group: str) -> dict[str, Any]:
    """One member that leads and gets everything: the SyncGroup by which it did."""
    subscription = encode_subscription(Subscription(topics=(TOPIC,)))
    body: dict[str, Any] = {
        "group_id": group, "session_timeout": _LONG_MS, "rebalance_timeout": _LONG_MS,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": subscription}],
    }  # fmt: skip
    told = await ask(life, group_asks.JOIN_GROUP, body)
    joined = await ask(life, group_asks.JOIN_GROUP, body | {"member_id": told.member_id})
    assert joined.error_code is ErrorCode.none
    share = encode_assignment(((TOPIC, (0,)),))
    sync = {
        "group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id,
        "protocol_type": "consumer", "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": share}],
    }  # fmt: skip
    synced = await ask(life, group_asks.SYNC_GROUP, sync)
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, share)
    return sync


async def join_consumer(life: Life, group: str, member_id: str) -> int:
    """A member of a group of the consumer protocol; its epoch."""
    body = {
        "group_id": group, "member_id": member_id, "member_epoch": 0, "rebalance_timeout": _LONG_MS,
        "subscribed_topic_names": [TOPIC], "topic_partitions": [],
    }  # fmt: skip
    answer = await ask(life, group_asks.CONSUMER_GROUP_HEARTBEAT, body)
    assert answer.error_code is ErrorCode.none
    return int(answer.member_epoch)


async def everything(life: Life, *groups: str) -> list[Any]:
    """All that can be asked about groups."""
    told: list[Any] = []
    for group in groups:
        told.append(await committed(life, group))
        (classic,) = (await ask(life, group_asks.DESCRIBE_GROUPS, {"groups": [group]})).groups
        # Why it was last rebalanced is remembered by the living shard only.
        told.append(dataclasses.replace(classic, last_rebalance=NOT_REMEMBERED))
        body = {"group_ids": [group]}
        (described,) = (await ask(life, group_asks.CONSUMER_GROUP_DESCRIBE, body)).groups
        members = sorted(described.members, key=lambda each: str(each.member_id))
        told.append((described.group_epoch, described.assignment_epoch, members))
    return told
