"""Old versions that say in another form what the newest says: one group where there are now many.

Each pair of functions comes after the conversion by name. `up` fills the newest form from the
old message; `down` fills the old form from the newest message, which then holds one element.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.wire.tolerant import field_type
from barnabas.wire.versions import convert

Fill = Callable[[Any, Any], Any]


class Reshape(NamedTuple):
    """How one message of the versions up to `until` becomes the newest and back.

    `fields` are the old message's own: all that would be lost without this.
    """

    until: int
    fields: frozenset[str]
    up: Fill
    down: Fill


def element_type(entity: Any, name: str) -> type[Any]:
    """The class of the elements of an entity's array."""
    (field,) = (field for field in fields(entity) if field.name == name)
    inner: type[Any] = field_type(field).inner
    return inner


def _elements(values: Any, entity: Any, name: str) -> tuple[Any, ...]:
    target = element_type(entity, name)
    return tuple(convert(value, target) for value in values)


def _metadata_request_up(old: Any, newest: Any) -> Any:
    """Version 0 asks for all topics by naming none; later ones do so with null."""
    return newest if old.topics else replace(newest, topics=None)


def _as_converted(_: Any, converted: Any) -> Any:
    return converted


def _offset_fetch_request_up(old: Any, newest: Any) -> Any:
    group = element_type(newest, "groups")(group_id=old.group_id, topics=None)
    if old.topics is not None:
        group = replace(group, topics=_elements(old.topics, group, "topics"))
    return replace(newest, groups=(group,))


def _offset_fetch_request_down(newest: Any, old: Any) -> Any:
    (group,) = newest.groups
    topics = None if group.topics is None else _elements(group.topics, old, "topics")
    return replace(old, group_id=group.group_id, topics=topics)


def _offset_fetch_response_up(old: Any, newest: Any) -> Any:
    error = getattr(old, "error_code", ErrorCode.none)
    group = element_type(newest, "groups")(group_id="", topics=(), error_code=error)
    group = replace(group, topics=_elements(old.topics, group, "topics"))
    return replace(newest, groups=(group,))


def _offset_fetch_response_down(newest: Any, old: Any) -> Any:
    """Version 1 has no error of its own: there the partitions must carry it already."""
    (group,) = newest.groups
    old = replace(old, topics=_elements(group.topics, old, "topics"))
    if hasattr(old, "error_code"):
        old = replace(old, error_code=group.error_code)
    return old


def _find_coordinator_request_up(old: Any, newest: Any) -> Any:
    return replace(newest, coordinator_keys=(old.key,))


def _find_coordinator_request_down(newest: Any, old: Any) -> Any:
    (key,) = newest.coordinator_keys
    return replace(old, key=key)


def _find_coordinator_response_up(old: Any, newest: Any) -> Any:
    coordinator = convert(old, element_type(newest, "coordinators"))
    return replace(newest, coordinators=(coordinator,))


def _find_coordinator_response_down(newest: Any, old: Any) -> Any:
    (coordinator,) = newest.coordinators
    own = {field.name for field in fields(old)} & {field.name for field in fields(coordinator)}
    return replace(old, **{name: getattr(coordinator, name) for name in own})


def _leave_group_request_up(old: Any, newest: Any) -> Any:
    member = element_type(newest, "members")(member_id=old.member_id)
    return replace(newest, members=(member,))


def _leave_group_request_down(newest: Any, old: Any) -> Any:
    (member,) = newest.members
    return replace(old, member_id=member.member_id)


def _leave_group_response_down(newest: Any, old: Any) -> Any:
    """The one member's error is the answer's, unless the whole group had one."""
    if newest.error_code is ErrorCode.none and newest.members:
        return replace(old, error_code=newest.members[0].error_code)
    return old


def _delete_topics_request_up(old: Any, newest: Any) -> Any:
    topic = element_type(newest, "topics")
    return replace(newest, topics=tuple(topic(name=n, topic_id=None) for n in old.topic_names))


def _delete_topics_request_down(newest: Any, old: Any) -> Any:
    return replace(old, topic_names=tuple(topic.name or "" for topic in newest.topics))


def _add_partitions_request_up(old: Any, newest: Any) -> Any:
    transaction = element_type(newest, "transactions")(
        transactional_id=old.v3_and_below_transactional_id,
        producer_id=old.v3_and_below_producer_id,
        producer_epoch=old.v3_and_below_producer_epoch,
        topics=(),
    )
    topics = _elements(old.v3_and_below_topics, transaction, "topics")
    return replace(newest, transactions=(replace(transaction, topics=topics),))


def _add_partitions_request_down(newest: Any, old: Any) -> Any:
    (transaction,) = newest.transactions
    return replace(
        old,
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=_elements(transaction.topics, old, "v3_and_below_topics"),
    )


def _add_partitions_response_up(old: Any, newest: Any) -> Any:
    result = element_type(newest, "results_by_transaction")(transactional_id="", topic_results=())
    topics = _elements(old.results_by_topic_v3_and_below, result, "topic_results")
    return replace(newest, results_by_transaction=(replace(result, topic_results=topics),))


def _add_partitions_response_down(newest: Any, old: Any) -> Any:
    """The old form has no error of its own: the partitions must carry it already."""
    (result,) = newest.results_by_transaction
    name = "results_by_topic_v3_and_below"
    return replace(old, **{name: _elements(result.topic_results, old, name)})


_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def _update_features_request_up(old: Any, newest: Any) -> Any:
    updates = tuple(
        replace(update, upgrade_type=_SAFE_DOWNGRADE if before.allow_downgrade else _UPGRADE)
        for before, update in zip(old.feature_updates, newest.feature_updates, strict=True)
    )
    return replace(newest, feature_updates=updates)


def _update_features_request_down(newest: Any, old: Any) -> Any:
    updates = tuple(
        replace(update, allow_downgrade=after.upgrade_type != _UPGRADE)
        for after, update in zip(newest.feature_updates, old.feature_updates, strict=True)
    )
    return replace(old, feature_updates=updates)


RESHAPES: Final[Mapping[tuple[int, str], Reshape]] = {
    (3, "request"): Reshape(0, frozenset(), _metadata_request_up, _as_converted),
    (9, "request"): Reshape(
        7,
        frozenset({"group_id", "topics"}),
        _offset_fetch_request_up,
        _offset_fetch_request_down,
    ),
    (9, "response"): Reshape(
        7,
        frozenset({"topics", "error_code"}),
        _offset_fetch_response_up,
        _offset_fetch_response_down,
    ),
    (10, "request"): Reshape(
        3,
        frozenset({"key"}),
        _find_coordinator_request_up,
        _find_coordinator_request_down,
    ),
    (10, "response"): Reshape(
        3,
        frozenset({"error_code", "error_message", "node_id", "host", "port"}),
        _find_coordinator_response_up,
        _find_coordinator_response_down,
    ),
    (13, "request"): Reshape(
        2, frozenset({"member_id"}), _leave_group_request_up, _leave_group_request_down
    ),
    (13, "response"): Reshape(2, frozenset(), _as_converted, _leave_group_response_down),
    (20, "request"): Reshape(
        5, frozenset({"topic_names"}), _delete_topics_request_up, _delete_topics_request_down
    ),
    (24, "request"): Reshape(
        3,
        frozenset(
            {
                "v3_and_below_transactional_id",
                "v3_and_below_producer_id",
                "v3_and_below_producer_epoch",
                "v3_and_below_topics",
            }
        ),
        _add_partitions_request_up,
        _add_partitions_request_down,
    ),
    (24, "response"): Reshape(
        3,
        frozenset({"results_by_topic_v3_and_below"}),
        _add_partitions_response_up,
        _add_partitions_response_down,
    ),
    (57, "request"): Reshape(
        0,
        frozenset({"feature_updates.allow_downgrade"}),
        _update_features_request_up,
        _update_features_request_down,
    ),
}
"""By API key and side. Messages not named here need no more than the conversion by name."""
