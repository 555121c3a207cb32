"""What members of groups and those who watch them ask a broker, by raw requests."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from tests.chaos.talk import Place
from tests.compat.raw import from_plain

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages import decode_response, encode_request, newest_type
from barnabas.wire.stored.consumer_protocol import decode_assignment

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
CONSUMER_GROUP_HEARTBEAT: Final = 68
CONSUMER_GROUP_DESCRIBE: Final = 69
VERSIONS: Final = {8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 68: 1, 69: 1}
"""The newest; commits and their fetches the newest that name topics."""

AWAY: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
    }
)
"""The coordinator has just come or is just going: ask again."""


class Committed(NamedTuple):
    """What OffsetFetch says of a partition."""

    offset: int
    metadata: str


class Description(NamedTuple):
    """A group as the broker describes it."""

    state: str
    shares: dict[str, frozenset[Place]]
    """By member id."""
    epoch: int
    """Of a group of the consumer protocol; -1 of a classic one."""


def ask(
    link: Link, key: int, body: Mapping[str, Any], asked: Callable[[], None] = lambda: None
) -> Any:
    """Ask one API: dictionary in, kio's message out. `asked` is called before the answer came."""
    version = VERSIONS[key]
    request = from_plain(newest_type(key, "request"), dict(body))
    link.send_frame(key, version, [encode_request(key, version, request)])
    asked()
    answer = link.receive_frame()
    return decode_response(key, version, answer.frame[answer.body_at :])


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    return topics


def committed(
    link: Link, group: str, member_id: str | None = None, epoch: int = -1
) -> dict[Place, Committed] | ErrorCode:
    """Every offset a group has, or why that is not said."""
    row = {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topics": None}
    (told,) = ask(link, OFFSET_FETCH, {"groups": [row]}).groups
    if told.error_code is not ErrorCode.none:
        code: ErrorCode = told.error_code
        return code
    return {
        (str(topic.name), int(each.partition_index)): Committed(
            # confluent-kafka sends the NUL that ends a C string along.
            int(each.committed_offset),
            (each.metadata or "").rstrip("\0"),
        )
        for topic in told.topics
        for each in topic.partitions
    }


def commit_body(
    group: str, member_id: str, generation: int, offsets: Mapping[Place, int]
) -> dict[str, Any]:
    """An OffsetCommit whose metadata repeats the offset, so that garbage would show."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": each,
                    "committed_offset": offsets[topic, each],
                    "committed_leader_epoch": -1,
                    "committed_metadata": str(offsets[topic, each]),
                }
                for each in numbers
            ],
        }
        for topic, numbers in by_topic(offsets).items()
    ]
    return {
        "group_id": group, "member_id": member_id, "topics": topics,
        "generation_id_or_member_epoch": generation,
    }  # fmt: skip


def commit_results(answer: Any) -> dict[Place, ErrorCode]:
    """How each partition of an OffsetCommit fared."""
    return {
        (str(topic.name), int(each.partition_index)): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def assignment_places(data: bytes) -> frozenset[Place]:
    """The partitions in an assignment of the classic protocol."""
    if not data:
        return frozenset()
    return frozenset((name, each) for name, numbers in decode_assignment(data) for each in numbers)


def described(link: Link, group: str) -> Description | ErrorCode:
    """A classic group."""
    (told,) = ask(link, DESCRIBE_GROUPS, {"groups": [group]}).groups
    if told.error_code is not ErrorCode.none:
        code: ErrorCode = told.error_code
        return code
    shares = {each.member_id: assignment_places(each.member_assignment) for each in told.members}
    return Description(told.group_state, shares, -1)


def consumer_described(
    link: Link, group: str, names: Mapping[UUID, str]
) -> Description | ErrorCode:
    """A group of the consumer protocol."""
    (told,) = ask(link, CONSUMER_GROUP_DESCRIBE, {"group_ids": [group]}).groups
    if told.error_code is not ErrorCode.none:
        code: ErrorCode = told.error_code
        return code
    shares = {
        each.member_id: places_of(each.assignment.topic_partitions, names) for each in told.members
    }
    return Description(told.group_state, shares, int(told.group_epoch))


def places_of(rows: Iterable[Any], names: Mapping[UUID, str]) -> frozenset[Place]:
    """Partitions named by topic ids."""
    return frozenset((names[row.topic_id], int(each)) for row in rows for each in row.partitions)
