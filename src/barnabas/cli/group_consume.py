"""`barnabas consume --group`: a member that commits what it printed, and nothing else.

At least once: a message is committed after its line was written and flushed, so that whoever dies
in between makes it come again. At most once: it is committed first, so that it never comes again.
"""

import signal
import sys
import time
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from barnabas.cli.client import REQUEST_S, existing_topic, pairs, settings
from barnabas.cli.consume import AT_ONCE, POLL_S, Limits, first_offset
from barnabas.cli.ending import check_somebody_reads
from barnabas.cli.group_facts import shown
from barnabas.cli.moments import AtOffset, End, Start
from barnabas.cli.output import note
from barnabas.cli.shapes import Shape
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, TopicPartition

_RETRY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Joining:
    """How to be a member."""

    group: str
    at_most_once: bool
    commits: bool
    protocol: str
    instance_id: str | None


class Ending:
    """Ctrl-C and SIGTERM end the reading between two batches; another one ends it at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class GroupReading:
    """A member of a group, which partitions it has, and what of its printing is not committed."""

    def __init__(
        self,
        topic: str,
        bootstrap: str,
        properties: list[str] | None,
        shape: Shape,
        joining: Joining,
    ) -> None:
        self._topic = topic
        self._shape = shape
        self._joining = joining
        self._config = settings(bootstrap) | {
            "group.id": joining.group,
            "group.protocol": joining.protocol,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
        }
        if joining.instance_id is not None:
            self._config["group.instance.id"] = joining.instance_id
        self._config |= pairs("-X", properties)
        self._incremental = joining.protocol == "consumer" or "cooperative" in str(
            self._config.get("partition.assignment.strategy", "")
        )
        self._joined = False
        self._assigned: set[int] = set()
        self._unfinished: dict[int, int] = {}
        """Where each partition ended when it was assigned, of those not read up to there."""
        self._printed: dict[int, int] = {}
        """Which offset comes next in each partition of which something is to be committed."""

    def run(self, place: Start, limits: Limits) -> None:
        """Join, read and print until a limit is reached or the person has enough, and leave."""
        from confluent_kafka import Consumer

        reset = "latest" if isinstance(place, End) else "earliest"
        self._place = place
        self._consumer = Consumer({"auto.offset.reset": reset} | self._config)
        with Ending() as ending:
            try:
                existing_topic(self._consumer, self._topic)
                self._consumer.subscribe(
                    [self._topic],
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                    on_lost=self._on_lost,
                )
                self._read(limits, ending)
            finally:
                self._leave()

    def _leave(self) -> None:
        try:
            self._commit_printed()
        finally:
            self._consumer.close()

    def _commit_printed(self) -> None:
        if self._printed and not self._commit(self._printed, REQUEST_S):
            note("What was printed last could not be committed: it will come again.")
        self._printed = {}

    def _on_assign(self, _consumer: Any, partitions: list["TopicPartition"]) -> None:
        """Begin each partition where the group stopped, or, before its first commit, at --from."""
        self._joined = True
        if partitions:
            partitions = self._consumer.committed(partitions, timeout=REQUEST_S)
        for each in partitions:
            place = AtOffset(each.offset) if each.offset >= 0 else self._place
            offset, end = first_offset(self._consumer, self._topic, each.partition, place)
            each.offset = offset
            self._assigned.add(each.partition)
            if offset < end:
                self._unfinished[each.partition] = end
        if self._incremental:
            self._consumer.incremental_assign(partitions)
        else:
            self._consumer.assign(partitions)

    def _on_revoke(self, _consumer: Any, partitions: list["TopicPartition"]) -> None:
        """Whoever gets a partition next begins after what was printed here."""
        self._commit_printed()
        self._give_up(partitions)

    def _on_lost(self, _consumer: Any, partitions: list["TopicPartition"]) -> None:
        """Others have the partitions already, so a commit would be refused."""
        lost = self._printed.keys() & {each.partition for each in partitions}
        if lost:
            note("The group went on without this member: what was printed last will come again.")
        self._give_up(partitions)

    def _give_up(self, partitions: list["TopicPartition"]) -> None:
        for each in partitions:
            self._assigned.discard(each.partition)
            self._unfinished.pop(each.partition, None)
            self._printed.pop(each.partition, None)
        if self._incremental:
            self._consumer.incremental_unassign(partitions)
        else:
            self._consumer.unassign()

    def _read(self, limits: Limits, ending: Ending) -> None:
        printed = 0
        heard_s = time.monotonic()
        while not ending.asked and not self._is_finished(limits):
            joined = self._joined
            wanted = AT_ONCE if limits.maximum is None else min(AT_ONCE, limits.maximum - printed)
            got = self._consumer.consume(wanted, POLL_S)
            messages = [each for each in got if self._is_wanted(each, limits.until_end)]
            if messages:
                printed += self._hand_over(messages)
            if messages or joined != self._joined:
                heard_s = time.monotonic()
            check_somebody_reads()
            if limits.maximum is not None and printed >= limits.maximum:
                return
            if limits.idle_s is not None and time.monotonic() - heard_s >= self._patience(limits):
                return

    def _is_finished(self, limits: Limits) -> bool:
        """Without a partition there is no end to come to: another member may yet give up one."""
        return limits.until_end and bool(self._assigned) and not self._unfinished

    def _patience(self, limits: Limits) -> float:
        """Silence before joining, or before what is known to be there, is no reason to stop."""
        idle_s = limits.idle_s or 0.0
        return max(idle_s, REQUEST_S) if self._unfinished or not self._joined else idle_s

    def _is_wanted(self, message: "Message", until_end: bool) -> bool:
        """Whether it is a message to print (ends of partitions and errors come the same way)."""
        from confluent_kafka import KafkaError, KafkaException

        number: Any = message.partition()
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._unfinished.pop(number, None)
            elif error.code() != KafkaError._MAX_POLL_EXCEEDED:
                # (After too long a pause of our reader the library joins again by itself.)
                raise self._refusal(error) or KafkaException(error)
            return False
        offset: Any = message.offset()
        end = self._unfinished.get(number)
        if until_end and end is None:
            return False
        if end is not None and offset + 1 >= end:
            del self._unfinished[number]
        return True

    def _refusal(self, error: "KafkaError") -> BarnabasError | None:
        """What to do about an error that comes of how the group was joined."""
        from confluent_kafka import KafkaError

        name = shown(self._joining.group)
        match error.code():
            case KafkaError.INCONSISTENT_GROUP_PROTOCOL:
                return BarnabasError(
                    f"The members of {name} share out in another way than {self._joining.protocol}:"
                    f" `barnabas group describe {name}` shows how; see --protocol and "
                    "-X partition.assignment.strategy."
                )
            case KafkaError.FENCED_INSTANCE_ID | KafkaError.UNRELEASED_INSTANCE_ID:
                return BarnabasError(
                    f"Another member of {name} is called {self._joining.instance_id}: choose "
                    "another --instance-id."
                )
        return None

    def _hand_over(self, messages: list["Message"]) -> int:
        """Print and commit, in the order that was asked for; how many were printed."""
        after: dict[int, Any] = {}
        for each in messages:
            offset: Any = each.offset()
            number: Any = each.partition()
            after[number] = offset + 1
        if not self._joining.commits:
            self._print(messages)
        elif self._joining.at_most_once:
            if not self._commit(after, REQUEST_S):
                note(f"{len(messages)} messages could not be committed and are not printed.")
                return 0
            self._print(messages)
        else:
            self._print(messages)
            self._printed |= after
            # What is refused for the moment is tried again with the next batch, or at the end.
            if self._commit(self._printed, 0.0):
                self._printed = {}
        return len(messages)

    def _print(self, messages: list["Message"]) -> None:
        for each in messages:
            sys.stdout.buffer.write(self._shape(each))
        sys.stdout.buffer.flush()

    def _commit(self, next_offsets: dict[int, int], patience_s: float) -> bool:
        """Whether these are committed now; tries for so long."""
        from confluent_kafka import KafkaException, TopicPartition

        deadline_s = time.monotonic() + patience_s
        wanted = [
            TopicPartition(self._topic, number, offset) for number, offset in next_offsets.items()
        ]
        while True:
            try:
                answer = self._consumer.commit(offsets=wanted, asynchronous=False)
                errors = [each.error for each in answer if each.error is not None]
            except KafkaException as error:
                errors = [error.args[0]]
            if not errors:
                return True
            if not all(map(_passes, errors)):
                if any(map(_is_too_late, errors)):
                    return False
                raise KafkaException(errors[0])
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(_RETRY_S)


def _passes(error: "KafkaError") -> bool:
    """Whether the same commit may be taken a moment later."""
    from confluent_kafka import KafkaError

    return bool(error.retriable()) or error.code() in (
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
    )


def _is_too_late(error: "KafkaError") -> bool:
    """Whether the group has gone on without this member."""
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError._ASSIGNMENT_LOST,
    )
