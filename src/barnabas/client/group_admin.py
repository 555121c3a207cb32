"""Consumer groups from outside: who is in them, how far they are, and setting them back."""

import time
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from barnabas.client.descriptions import (
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupOffset,
    OffsetReset,
)
from barnabas.client.errors import (
    MOVING,
    ClientError,
    GroupNotFoundError,
    config_error,
    no_such_topic,
    translated,
    translating,
)
from barnabas.client.message import to_milliseconds
from barnabas.model.topics import TopicPartition

_LOOK_S: Final = 0.05

ResetTo = Literal["beginning", "end"] | int | datetime | timedelta


class GroupAdmin:
    """The part of `Admin` that knows groups."""

    _raw: Any
    _timeout: float

    def list_groups(self) -> list[GroupListing]:
        """Every group there is, by name."""
        answer = self._raw.list_consumer_groups(request_timeout=self._timeout)
        found = self._answer(answer, "listing the groups")
        for error in found.errors or ():
            raise translated(error, "listing the groups")
        return sorted(
            (
                GroupListing(each.group_id, _state(each.state), each.type.name.lower())
                for each in found.valid
            ),
            key=lambda each: each.group,
        )

    def describe_group(self, group: str) -> GroupDescription:
        """A group with its members, offsets and lag. GroupNotFoundError when there is none."""
        answers = self._raw.describe_consumer_groups([group], request_timeout=self._timeout)
        found = self._answer(answers[group], f"describing the group {group}")
        offsets = self.group_offsets(group)
        if _state(found.state) == "dead" and not offsets:
            raise _no_such_group(group)
        return GroupDescription(
            group=group,
            state=_state(found.state),
            protocol=found.type.name.lower(),
            assignor=found.partition_assignor or "",
            coordinator=None if found.coordinator is None else found.coordinator.id,
            members=tuple(
                GroupMember(
                    member_id=each.member_id,
                    instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    host=each.host,
                    assignment=tuple(
                        sorted(
                            TopicPartition(place.topic, place.partition)
                            for place in each.assignment.topic_partitions
                        )
                    ),
                )
                for each in found.members
            ),
            offsets=offsets,
        )

    def group_offsets(self, group: str) -> tuple[GroupOffset, ...]:
        """How far a group is in every partition it has committed for."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = [ConsumerGroupTopicPartitions(group)]
        answers = self._raw.list_consumer_group_offsets(asked, request_timeout=self._timeout)
        found = self._answer(answers[group], f"asking for the offsets of {group}")
        rows = {TopicPartition(each.topic, each.partition): each for each in found.topic_partitions}
        topics = self._metadata()
        existing = [
            place
            for place in rows
            if place.topic in topics and place.partition in topics[place.topic].partitions
        ]
        starts, ends = self._offsets(existing, "earliest"), self._offsets(existing, "latest")
        return tuple(
            GroupOffset(
                place=place,
                committed=rows[place].offset if rows[place].offset >= 0 else None,
                start_offset=starts[place],
                end_offset=ends[place],
                metadata=rows[place].metadata or "",
            )
            for place in sorted(existing)
        )

    def lag(self, group: str) -> dict[TopicPartition, int]:
        """How many offsets lie before a group, in every partition it has committed for."""
        return {each.place: each.lag for each in self.group_offsets(group)}

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets. GroupNotEmptyError while it has members."""
        answers = self._raw.delete_consumer_groups([group], request_timeout=self._timeout)
        self._answer(answers[group], f"deleting the group {group}")

    def reset_offsets(
        self,
        group: str,
        topic: str,
        *,
        to: ResetTo | None = None,
        by: int | None = None,
        partitions: Iterable[int] | None = None,
        dry_run: bool = False,
    ) -> tuple[OffsetReset, ...]:
        """Move a group in a topic `to` an end, offset, time or timedelta ago, or `by` so many.

        The group must have no members (GroupNotEmptyError). Offsets out of range become the
        nearest there is. With `dry_run` nothing changes, and the answer tells what would.
        """
        if (to is None) == (by is None):
            config_error("reset_offsets takes `to` or `by`.")
        places = self._places(topic, partitions)
        standing = {each.place: each.committed for each in self.group_offsets(group)}
        starts, ends = self._offsets(places, "earliest"), self._offsets(places, "latest")
        resets = []
        for place, wanted in self._targets(places, to, by, standing, starts, ends).items():
            after = min(max(wanted, starts[place]), ends[place])
            resets.append(OffsetReset(place, standing.get(place), after))
        if not dry_run:
            self._alter_offsets(group, resets)
        return tuple(resets)

    def _targets(
        self,
        places: list[TopicPartition],
        to: ResetTo | None,
        by: int | None,
        standing: dict[TopicPartition, int | None],
        starts: dict[TopicPartition, int],
        ends: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        if by is not None:
            found = {}
            for place in places:
                at = standing.get(place)
                found[place] = (starts[place] if at is None else at) + by
            return found
        if to == "beginning":
            return starts
        if to == "end":
            return ends
        if isinstance(to, int):
            return dict.fromkeys(places, to)
        moment = datetime.now(UTC) - to if isinstance(to, timedelta) else to
        if not isinstance(moment, datetime):
            config_error('`to` is "beginning", "end", an offset, a datetime or a timedelta.')
        at_time = self._offsets(places, max(0, to_milliseconds(moment)))
        return {place: offset if offset >= 0 else ends[place] for place, offset in at_time.items()}

    def _alter_offsets(self, group: str, resets: list[OffsetReset]) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions
        from confluent_kafka import TopicPartition as RawPlace

        named = [RawPlace(*each.place, each.after) for each in resets]
        answers = self._raw.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, named)], request_timeout=self._timeout
        )
        found = self._answer(answers[group], f"resetting the group {group}")
        for each in found.topic_partitions:
            if each.error is not None:
                raise translated(each.error, f"resetting the group {group}")

    def _places(self, topic: str, partitions: Iterable[int] | None) -> list[TopicPartition]:
        found = self._metadata().get(topic)
        if found is None:
            raise no_such_topic(topic)
        wanted = sorted(found.partitions) if partitions is None else list(partitions)
        missing = [number for number in wanted if number not in found.partitions]
        if missing:
            config_error(
                f"{topic} has no partition {missing[0]}: it has {len(found.partitions)}, counted "
                "from 0."
            )
        return [TopicPartition(topic, number) for number in wanted]

    def _metadata(self) -> dict[str, Any]:
        """Every topic. Asking for all of them never creates one, as asking for one can."""
        with translating("asking for the topics"):
            found: dict[str, Any] = self._raw.list_topics(timeout=self._timeout).topics
            return found

    def _offsets(
        self,
        places: Collection[TopicPartition],
        at: Literal["earliest", "latest"] | int,
        *,
        isolation: Literal["read_committed", "read_uncommitted"] = "read_uncommitted",
    ) -> dict[TopicPartition, int]:
        """An offset of each partition: an end, or the first that is not older than a time.

        -1 when every message is older.
        """
        from confluent_kafka import IsolationLevel, admin
        from confluent_kafka import TopicPartition as RawPlace

        if not places:
            return {}
        api: Any = admin
        spec = (
            api.OffsetSpec.for_timestamp(at)
            if isinstance(at, int)
            else getattr(api.OffsetSpec, at)()
        )
        deadline = time.monotonic() + self._timeout
        while True:
            asked = {RawPlace(*place): spec for place in places}
            answers = self._raw.list_offsets(
                asked,
                isolation_level=IsolationLevel[isolation.upper()],
                request_timeout=self._timeout,
            )
            try:
                return {
                    TopicPartition(raw.topic, raw.partition): int(
                        self._answer(answer, f"asking for offsets of {raw.topic}").offset
                    )
                    for raw, answer in answers.items()
                }
            except ClientError as error:
                # A new partition's leader may not be in office yet.
                if error.code not in MOVING or time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_S)

    def _answer(self, answer: Any, doing: str) -> Any:
        """Wait for the library's future."""
        with translating(doing):
            # The request has its own time limit; this one is for a library that forgot it.
            return answer.result(self._timeout + 5)


def _state(state: Any) -> str:
    return str(state.name).lower()


def _no_such_group(group: str) -> GroupNotFoundError:
    return GroupNotFoundError(
        f"There is no group {group}: list_groups() tells which there are.",
        code="GROUP_ID_NOT_FOUND",
    )
