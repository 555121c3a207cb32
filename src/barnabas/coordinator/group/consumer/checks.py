"""What a heartbeat may say, in Kafka's words when it says something else."""

from barnabas.coordinator.group.asks import Assignment, ConsumerHeartbeat, Leaver
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Epochs,
    Member,
    MemberState,
)
from barnabas.coordinator.topic_regex import compile_topic_regex
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.limits import GROUP_REGEXES_MAX


def check_heartbeat(ask: ConsumerHeartbeat, assignors: tuple[str, ...]) -> None:
    """INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, from the request alone.

    Blanks are as good as nothing. An empty member id is refused here only where every version
    refuses it; the caller, who knows the version, refuses it in all requests from version 1 on.
    """
    epoch = ask.member_epoch
    if (epoch > JOINING or epoch == LEAVING) and not ask.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not ask.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if ask.instance_id is not None and not ask.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if ask.rack_id is not None and not ask.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if epoch == JOINING:
        _check_joining(ask)
    elif epoch == LEAVING_FOR_A_WHILE and ask.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE:
        raise _invalid("MemberEpoch is invalid.")
    if ask.server_assignor is not None and ask.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {ask.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _check_joining(ask: ConsumerHeartbeat) -> None:
    if ask.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if ask.owned is None or ask.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if ask.topic_names is None and ask.topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def check_room(group: ConsumerGroup, ask: ConsumerHeartbeat, max_size: int) -> None:
    """GROUP_MAX_SIZE_REACHED when one more would be too many; those who are in may stay."""
    if ask.member_id in group.members or ask.instance_id in group.static_ids:
        return
    if len(group.members) >= max_size:
        raise KafkaError(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


def check_new_regex(group: ConsumerGroup, regex: str) -> None:
    """INVALID_REGULAR_EXPRESSION unless it is one, and the group has room for it."""
    if len(group.regex_users) >= GROUP_REGEXES_MAX:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"A group takes at most {GROUP_REGEXES_MAX} different regular expressions.",
        )
    compile_topic_regex(regex)


def check_epoch(member: Member, ask: ConsumerHeartbeat) -> None:
    """FENCED_MEMBER_EPOCH unless the epoch is the member's own.

    The one before is as good when the member owns nothing beyond its assignment: then the answer
    that told it the new one may have been lost.
    """
    if member.owns.state is MemberState.UNKNOWN and (ask.owned is None or ask.owned):
        raise KafkaError(
            ErrorCode.fenced_member_epoch,
            "The consumer group member is in an unknown state. The member must abandon all its "
            "partitions and rejoin.",
        )
    received, known = ask.member_epoch, member.owns.epoch
    if received in (JOINING, known):
        return
    if received > known:
        compared = "greater"
    elif received == member.owns.previous_epoch and _is_within(ask.owned, member.owns.assigned):
        return
    else:
        compared = "smaller"
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {compared} member epoch ({received}) than the one known "
        f"by the group coordinator ({known}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_within(owned: Assignment | None, assigned: Epochs) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and all(number in assigned[topic_id] for number in partitions)
        for topic_id, partitions in owned.items()
    )


def check_released(member: Member, ask: ConsumerHeartbeat) -> None:
    """UNRELEASED_INSTANCE_ID while the static id's last user has not left."""
    if member.owns.epoch != LEAVING_FOR_A_WHILE:
        raise KafkaError(
            ErrorCode.unreleased_instance_id,
            f"Static member {ask.member_id} with instance id {ask.instance_id} cannot join the "
            f"group because the instance id is owned by {member.member_id} member.",
        )


def known_static_member(group: ConsumerGroup, ask: ConsumerHeartbeat) -> Member:
    """The member with the static id, or UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID for another's."""
    member = group.static_member(ask.instance_id or "")
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id, f"Instance id {ask.instance_id} is unknown.")
    if member.member_id != ask.member_id:
        raise KafkaError(
            ErrorCode.fenced_instance_id,
            f"Static member {ask.member_id} with instance id {ask.instance_id} was fenced by "
            f"member {member.member_id}.",
        )
    return member


def leaving_member(group: ConsumerGroup, leaver: Leaver) -> Member:
    """Whom LeaveGroup means: by member id, or by static id, with or without the member id."""
    if leaver.instance_id is None:
        return group.member(leaver.member_id)
    member = group.static_member(leaver.instance_id)
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    if leaver.member_id and leaver.member_id != member.member_id:
        raise KafkaError(ErrorCode.fenced_instance_id)
    return member


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
