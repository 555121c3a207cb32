"""What a group is: its state, its members and theirs, and why it was last rebalanced."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.brokers import error_name
from barnabas.cli.group_brokers import CONSUMER_GROUP_DESCRIBE, GroupBroker, Listed
from barnabas.model.errors import BarnabasError, DecodeError, ErrorCode
from barnabas.wire.tolerant import read_message

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_VERSION_BYTES: Final = 2
_NAMES_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The last time the partitions were shared out anew."""

    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer in a group."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    partitions: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Group:
    """One group. An epoch is None where the protocol has none, the rebalance when nobody tells."""

    name: str
    type: str
    state: str
    protocol: str
    """How partitions are shared out: `range`, `uniform`, ..., or empty."""
    epoch: int | None
    assignment_epoch: int | None
    last_rebalance: Rebalance | None
    members: list[Member]


def gather(listed: Iterable[Listed]) -> dict[str, Group]:
    """Ask each coordinator about its groups. Those that have gone meanwhile are left out.

    So are share and streams groups, which have members of another kind.
    """
    wanted: dict[tuple[GroupBroker, str], list[str]] = defaultdict(list)
    for each in listed:
        wanted[each.coordinator, each.type.lower()].append(each.name)
    found: dict[str, Group] = {}
    for (broker, kind), names in wanted.items():
        if kind == CONSUMER and broker.speaks(CONSUMER_GROUP_DESCRIBE):
            answers, read = broker.consumer_groups(names), _consumer_group
        elif kind == CLASSIC:
            answers, read = broker.classic_groups(names), _classic_group
        else:
            continue
        for answer in answers:
            if answer.error_code == ErrorCode.group_id_not_found:
                continue
            if answer.error_code != ErrorCode.none:
                raise _refusal(answer)
            found[answer.group_id] = read(answer)
    return found


def _refusal(answer: Any) -> BarnabasError:
    said = (answer.error_message or "the broker does not tell").rstrip(".")
    return BarnabasError(f"Group {answer.group_id}: {said} ({error_name(answer.error_code)}).")


def _classic_group(answer: Any) -> Group:
    return Group(
        name=answer.group_id,
        type=CLASSIC,
        state=answer.group_state,
        protocol=answer.protocol_data,
        epoch=None,
        assignment_epoch=None,
        last_rebalance=_rebalance(answer),
        members=[
            Member(
                id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                host=each.client_host.lstrip("/"),
                epoch=None,
                partitions=_assigned(answer.protocol_type, each.member_assignment),
            )
            for each in answer.members
        ],
    )


def _consumer_group(answer: Any) -> Group:
    return Group(
        name=answer.group_id,
        type=CONSUMER,
        state=answer.group_state,
        protocol=answer.assignor_name,
        epoch=answer.group_epoch,
        assignment_epoch=answer.assignment_epoch,
        last_rebalance=_rebalance(answer),
        members=[
            Member(
                id=each.member_id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                host=each.client_host.lstrip("/"),
                epoch=each.member_epoch,
                partitions=sorted(
                    (topic.topic_name, number)
                    for topic in each.assignment.topic_partitions
                    for number in topic.partitions
                ),
            )
            for each in answer.members
        ],
    )


def _rebalance(answer: Any) -> Rebalance | None:
    """Barnabas tells in a tagged field of its own; other brokers have nothing like it."""
    told = getattr(answer, "last_rebalance", None)
    return Rebalance(told.reason, told.at_ms) if told is not None and told.reason else None


def _assigned(protocol_type: str, assignment: bytes) -> list[tuple[str, int]]:
    """The partitions in what the group's leader gave a member: a version, then the struct.

    The broker keeps these bytes for the members without looking at them, so that they may hold
    anything: other kinds of clients (Kafka Connect) have formats of their own.
    """
    from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment

    if protocol_type != CONSUMER or len(assignment) < _VERSION_BYTES:
        return []
    try:
        found = read_message(ConsumerProtocolAssignment, bytes(assignment[_VERSION_BYTES:]))
    except DecodeError:
        return []
    return sorted(
        (topic.topic, number) for topic in found.assigned_partitions for number in topic.partitions
    )


def named_members(group: Group) -> str:
    """`consumer-1 at 10.0.0.7 and 3 more`: who is in the group, for a sentence."""
    names = [f"{shown(each.client_id)} at {each.host}" for each in group.members[:_NAMES_MAX]]
    more = len(group.members) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def shown(name: str) -> str:
    """A name on one line: a group can be called anything, line breaks and escapes included."""
    return name if name and name.isprintable() else repr(name)
