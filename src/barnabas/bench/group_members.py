"""Members of many groups, each on a connection of its own, in a process that obeys its stdin.

It has everybody join, says so, and then heartbeats for as long as it is told to: one JSON line
each way.
"""

import asyncio
import json
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final, cast

from kio.schema.consumer_group_heartbeat.v1.request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta

from barnabas.link.aio import Link, connect
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.wire.messages import encode_request

_FIND_COORDINATOR, _JOIN, _HEARTBEAT, _SYNC, _CONSUMER_HEARTBEAT = 10, 11, 12, 14, 68
_SESSION: Final = cast("i32Timedelta", timedelta(minutes=5))
"""Nobody is to be thrown out while it rests."""
_CONNECTING_AT_ONCE: Final = 50
_SETTLE_ROUNDS_MAX: Final = 100
_PAUSE_S: Final = 0.1


@dataclass(frozen=True)
class Order:
    """Which groups there are to be, and how their members behave."""

    host: str
    port: int
    protocol: str
    groups: int
    members: int
    interval_s: float
    topic: str


@dataclass(frozen=True)
class Beats:
    """What came of some seconds of heartbeats."""

    answered: int
    seconds: float


class ClassicMember:
    """Joins and syncs; every member gets an assignment of a few bytes."""

    version = 4
    key = _HEARTBEAT

    def __init__(self, link: Link, group: str, _topic: str) -> None:
        self.link = link
        self.group = GroupId(group)
        self.beat = b""

    async def join(self) -> None:
        """Until a whole rebalance has gone by without another one beginning."""
        member_id = ""
        while True:
            joined = await self.link.call(_JOIN, 9, self._join(member_id))
            member_id = joined.member_id
            if joined.error_code is ErrorCode.member_id_required:
                continue
            if joined.error_code is ErrorCode.coordinator_load_in_progress:
                await asyncio.sleep(_PAUSE_S)
                continue
            _check(joined.error_code)
            synced = await self.link.call(_SYNC, 5, self._sync(joined))
            if synced.error_code is not ErrorCode.rebalance_in_progress:
                _check(synced.error_code)
                break
        ask = HeartbeatRequest(
            group_id=self.group, generation_id=joined.generation_id, member_id=member_id
        )
        self.beat = encode_request(_HEARTBEAT, 4, ask)

    def _join(self, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout=_SESSION,
            rebalance_timeout=_SESSION,
            member_id=member_id,
            group_instance_id=None,
            protocol_type="bench",
            protocols=(JoinGroupRequestProtocol(name="none", metadata=b"bench"),),
        )

    def _sync(self, joined: Any) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=None,
            protocol_type="bench",
            protocol_name="none",
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"bench")
                for each in joined.members
            ),
        )


class ConsumerMember:
    """Takes up what it is assigned, until that changes no more."""

    version = 1
    key = _CONSUMER_HEARTBEAT

    def __init__(self, link: Link, group: str, topic: str) -> None:
        self.link = link
        self.group = GroupId(group)
        self.beat = b""
        self._topic = TopicName(topic)
        self._member_id = str(uuid.uuid4())
        self._epoch = 0
        self._owned: tuple[TopicPartitions, ...] = ()

    async def settle(self) -> bool:
        """One heartbeat with everything there is to say; whether it changed nothing."""
        ask = self._ask(topics=(self._topic,), owned=self._owned)
        answer = await self.link.call(_CONSUMER_HEARTBEAT, 1, ask)
        _check(answer.error_code)
        epoch, self._epoch = self._epoch, answer.member_epoch
        owned = self._owned
        if answer.assignment is not None:
            self._owned = tuple(
                TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            )
        self.beat = encode_request(_CONSUMER_HEARTBEAT, 1, self._ask(topics=None, owned=None))
        return epoch == self._epoch and owned == self._owned

    def _ask(
        self, topics: tuple[TopicName, ...] | None, owned: tuple[TopicPartitions, ...] | None
    ) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self._member_id,
            member_epoch=i32(self._epoch),
            rebalance_timeout=_SESSION if topics else cast("i32Timedelta", timedelta(0)),
            subscribed_topic_names=topics,
            subscribed_topic_regex=None,
            topic_partitions=owned,
        )


class NobodysMember:
    """Heartbeats to a server that has no groups."""

    version = 4
    key = _HEARTBEAT

    def __init__(self, link: Link, group: str, _topic: str) -> None:
        self.link = link
        ask = HeartbeatRequest(
            group_id=GroupId(group), generation_id=i32(1), member_id=str(uuid.uuid4())
        )
        self.beat = encode_request(_HEARTBEAT, 4, ask)


Member = ClassicMember | ConsumerMember | NobodysMember

BARE: Final = "bare"
_KINDS: Final[dict[str, type[Member]]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
    BARE: NobodysMember,
}


def _check(error: ErrorCode) -> None:
    if error is not ErrorCode.none:
        raise BarnabasError(f"A member of a group was told {error.name.upper()}.")


async def find_coordinator(order: Order) -> None:
    """Have the broker get ready to keep groups."""
    keys = ("bench",)
    async with await connect(order.host, order.port) as link:
        while True:
            ask = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=keys)
            (found,) = (await link.call(_FIND_COORDINATOR, 6, ask)).coordinators
            if found.error_code is ErrorCode.none:
                return
            await asyncio.sleep(_PAUSE_S)


async def assemble(order: Order) -> list[Member]:
    """Everybody, joined and settled."""
    kind = _KINDS[order.protocol]
    if order.protocol != BARE:
        await find_coordinator(order)
    room = asyncio.Semaphore(_CONNECTING_AT_ONCE)

    async def whole_group(number: int) -> list[Member]:
        name = f"bench-{order.protocol}-{number}"
        async with room:
            links = [await connect(order.host, order.port) for _ in range(order.members)]
            members: list[Member] = [kind(link, name, order.topic) for link in links]
            await _come_together(members)
        return members

    groups = await asyncio.gather(*(whole_group(number) for number in range(order.groups)))
    return [member for group in groups for member in group]


async def _come_together(members: list[Member]) -> None:
    classic = [each for each in members if isinstance(each, ClassicMember)]
    await asyncio.gather(*(each.join() for each in classic))
    consumers = [each for each in members if isinstance(each, ConsumerMember)]
    for _ in range(_SETTLE_ROUNDS_MAX):
        if all([await each.settle() for each in consumers]):
            return
    raise BarnabasError("A group did not come to rest.")


async def beat_for(members: list[Member], interval_s: float, seconds: float) -> Beats:
    """Heartbeats of everybody, spread evenly over the interval."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    answered = 0

    async def beats(number: int, member: Member) -> None:
        nonlocal answered
        due = began + interval_s * number / len(members)
        while due < began + seconds:
            await asyncio.sleep(due - loop.time())
            answer = await member.link.ask(member.key, member.version, [member.beat])
            # Both answers begin with a throttle time and the error.
            error = answer.frame[answer.body_at + 4 : answer.body_at + 6]
            _check(ErrorCode(int.from_bytes(error, "big", signed=True)))
            answered += 1
            due += interval_s

    await asyncio.gather(*(beats(*each) for each in enumerate(members)))
    return Beats(answered, loop.time() - began)


async def obey(order: Order) -> None:
    """Join everybody, then a line with seconds in is answered by a line with beats."""
    began = time.monotonic()
    members = await assemble(order)
    _say({"joined": len(members), "seconds": time.monotonic() - began})
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        _say(asdict(await beat_for(members, order.interval_s, float(line))))


def _say(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


def main() -> None:
    """The order comes as the first line."""
    order = Order(**json.loads(sys.stdin.readline()))
    try:
        asyncio.run(obey(order))
    except (BarnabasError, OSError) as problem:
        _say({"problem": str(problem) or type(problem).__name__})


if __name__ == "__main__":
    main()
