"""From events to facts, in one pass; what breaks an order is found on the way."""

from barnabas.model.topics import TopicPartition
from barnabas.verify.facts import NEVER, Fate, Gap, Operation, PartitionFacts, Write
from barnabas.verify.findings import Anomaly, Finding, Findings, Lag
from barnabas.verify.history import (
    CommittedOffset,
    Event,
    EventType,
    Function,
    HistoryError,
    Isolation,
    Poll,
    Send,
    Start,
)
from barnabas.verify.positions import Positions

_ENDS_ALONE = frozenset({Function.POLL, Function.OFFSET_FETCH})
"""What may be recorded by its end alone, as nothing is known before."""


class Gathering:
    """Takes events in the order of their time."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.partitions: dict[TopicPartition, PartitionFacts] = {}
        self.transactions: list[Operation] = []
        self.positions = Positions(self.findings)
        self.worst_lag = Lag()
        self.events = 0
        self.records_read = 0
        self._processes: set[str] = set()
        self._running: dict[str, Operation] = {}
        self._standing: dict[str, dict[TopicPartition, int]] = {}
        """The last offset that each consumer with an assignment has passed."""
        self._sent: dict[tuple[str, TopicPartition], int] = {}
        """The last offset that each producer was told."""

    @property
    def processes(self) -> int:
        """How many took part."""
        return len(self._processes)

    def take(self, event: Event) -> None:
        """One more event. HistoryError when it does not follow from those before."""
        self.events += 1
        self._processes.add(event.process)
        match event.f, event.type:
            case ((Function.ASSIGN | Function.SUBSCRIBE | Function.CRASH), _):
                self._turn(event)
            case _, EventType.INVOKE:
                self._begin(event)
            case _, EventType.COMMIT:
                self._running_of(event).asked = self.events
            case _:
                self._end(event)

    def partition(self, place: TopicPartition) -> PartitionFacts:
        """What is known of it so far."""
        facts = self.partitions.get(place)
        if facts is None:
            facts = self.partitions[place] = PartitionFacts(place)
        return facts

    # --- operations ----------------------------------------------------------------------------

    def _turn(self, event: Event) -> None:
        """A consumer begins anew, elsewhere."""
        self._standing.pop(event.process, None)
        if event.f is Function.CRASH:
            self._running.pop(event.process, None)
        if event.f is Function.ASSIGN:
            standing = self._standing[event.process] = {}
            for step in event.steps:
                if isinstance(step, Start):
                    self.partition(step.place).is_read = True
                    if step.offset is not None:
                        standing[step.place] = step.offset - 1

    def _begin(self, event: Event) -> None:
        if event.process in self._running:
            text = f"{event.process} begins {event.f} before its last operation has ended"
            raise HistoryError(f"{event.source}: {text}.")
        operation = self._new_operation(event)
        self._running[event.process] = operation
        for step in event.steps:
            if isinstance(step, Send):
                self._send(operation, step, event)
            elif isinstance(step, CommittedOffset) and event.f is not Function.OFFSET_FETCH:
                self.positions.offer(operation, step)

    def _new_operation(self, event: Event) -> Operation:
        operation = Operation(event.process, event.f, self.events, idempotent=event.idempotent)
        if operation.is_transaction:
            self.transactions.append(operation)
        return operation

    def _send(self, operation: Operation, send: Send, event: Event) -> None:
        partition = self.partition(send.place)
        write = partition.write_of(send.value)
        if write.operation is not None:
            text = f"{send.value!r} was sent to {send.place.directory} before"
            raise HistoryError(f"{event.source}: {text}; values must be unique.")
        write.operation, write.key = operation, send.key
        operation.writes.append(write)
        operation.floors.setdefault(send.place, partition.known_high)
        partition.has_sends = True

    def _running_of(self, event: Event) -> Operation:
        operation = self._running.get(event.process)
        if operation is None or operation.f is not event.f:
            text = f"{event.process} has not begun the {event.f} that this is the {event.type} of"
            raise HistoryError(f"{event.source}: {text}.")
        return operation

    def _end(self, event: Event) -> None:
        if event.f in _ENDS_ALONE and event.process not in self._running:
            operation = self._new_operation(event)
        else:
            operation = self._running_of(event)
            del self._running[event.process]
        is_ok = event.type is EventType.OK
        if is_ok and operation.is_transaction and operation.asked == NEVER:
            text = f"{event.process} has committed without having been asked to"
            raise HistoryError(f"{event.source}: {text}: a line of type commit is missing.")
        operation.outcome = event.type
        operation.ended, operation.ended_ns = self.events, event.time
        sends = [step for step in event.steps if isinstance(step, Send)]
        self._check_same(operation, sends, event)
        # Of a burst that failed in part some is acknowledged all the same. Not so in a transaction:
        # where its records were stored says nothing of whether it was committed.
        if is_ok or (event.type is EventType.INFO and not operation.is_transaction):
            self._acknowledge(operation, sends)
        passed: dict[TopicPartition, int] = {}
        for step in event.steps:
            if isinstance(step, Poll):
                self._read(operation, step, event, passed)
            elif isinstance(step, CommittedOffset) and event.f is Function.OFFSET_FETCH and is_ok:
                self.positions.find(operation, step)
        if is_ok and event.f is not Function.OFFSET_FETCH:
            self.positions.commit(operation)

    def _check_same(self, operation: Operation, sends: list[Send], event: Event) -> None:
        """What has ended is what was begun, or its end says nothing of it."""
        begun = [(write.place, write.value) for write in operation.writes]
        if sends and begun != [(send.place, send.value) for send in sends]:
            raise HistoryError(f"{event.source}: its sends are not those it began with.")

    # --- sends ---------------------------------------------------------------------------------

    def _acknowledge(self, operation: Operation, sends: list[Send]) -> None:
        before: dict[TopicPartition, int] = {}
        for write, send in zip(operation.writes, sends, strict=False):
            if send.offset is None:
                continue
            write.acknowledged = send.offset
            partition = self.partition(send.place)
            partition.known_high = max(partition.known_high, send.offset)
            self._check_real_time(operation, write, send.offset)
            if operation.idempotent:
                self._check_order(operation, send, send.offset, before)

    def _check_real_time(self, operation: Operation, write: Write, offset: int) -> None:
        floor = operation.floors[write.place]
        if offset <= floor:
            self._find(
                Anomaly.REALTIME_ORDER,
                f"{write.value!r} of {operation.process} got offset {offset} although offset "
                f"{floor} was known before it was sent",
                write.place, (offset, floor), (operation.process,), (write.value,),
            )  # fmt: skip

    def _check_order(
        self, operation: Operation, send: Send, offset: int, before: dict[TopicPartition, int]
    ) -> None:
        place, process = send.place, operation.process
        inner, outer = before.get(place), self._sent.get((process, place))
        earlier = inner if inner is not None else outer
        if earlier is not None and offset <= earlier:
            self._find(
                Anomaly.NONMONOTONIC_SEND if inner is None else Anomaly.INT_NONMONOTONIC_SEND,
                f"{process} got offset {offset} for {send.value!r}, after {earlier} for what it "
                "had sent before",
                place, (offset, earlier), (process,), (send.value,),
            )  # fmt: skip
        before[place] = offset
        self._sent[process, place] = max(offset, -1 if outer is None else outer)

    # --- polls ---------------------------------------------------------------------------------

    def _read(
        self, operation: Operation, poll: Poll, event: Event, passed: dict[TopicPartition, int]
    ) -> None:
        """`passed` is the last offset of each partition within this operation."""
        partition = self.partition(poll.place)
        of_committed = event.isolation is Isolation.READ_COMMITTED
        partition.is_read = True
        partition.has_committed_readers |= of_committed
        standing = self._standing.get(event.process, {})
        inner = passed.get(poll.place)
        last = inner if inner is not None else standing.get(poll.place)
        for offset, value in poll.records:
            if last is not None and offset != last + 1:
                self._jump(partition, event, (last, offset), inner is not None)
            self._see(partition, operation, event, (offset, value))
            last = inner = offset
        if poll.position is not None:
            if last is not None and poll.position != last + 1:
                self._jump(partition, event, (last, poll.position), inner is not None)
            last = poll.position - 1
        if last is None:
            return
        self.records_read += len(poll.records)
        passed[poll.place] = last
        if event.process in self._standing:
            standing[poll.place] = last
        partition.high = max(partition.high, last)
        if of_committed:
            partition.high_committed = max(partition.high_committed, last)

    def _jump(
        self, partition: PartitionFacts, event: Event, jump: tuple[int, int], within_one: bool
    ) -> None:
        """The next offset is not the one after the last."""
        last, offset = jump
        if within_one and event.rebalanced:
            return
        if offset > last:
            of_committed = event.isolation is Isolation.READ_COMMITTED
            partition.gaps.append(Gap(event.process, last, offset, of_committed, within_one))
            return
        self._find(
            Anomaly.INT_NONMONOTONIC_POLL if within_one else Anomaly.NONMONOTONIC_POLL,
            f"{event.process} got offset {offset} after {last}",
            partition.place, (last, offset), (event.process,),
        )  # fmt: skip

    def _see(
        self,
        partition: PartitionFacts,
        operation: Operation,
        event: Event,
        record: tuple[int, str],
    ) -> None:
        offset, value = record
        write = partition.writes.get(value) or partition.write_of(value)
        if event.isolation is Isolation.READ_COMMITTED:
            if write.seen_committed == NEVER:
                write.seen_committed, write.reader = self.events, event.process
                self._note_lag(write, event)
        elif write.seen == NEVER:
            write.reader = event.process
        if write.seen == NEVER:
            write.seen = self.events
        if offset != write.offset:
            self._place(partition, write, offset)
        if write.operation is operation:
            self._find(
                Anomaly.PRECOMMITTED_READ,
                f"{event.process} read its own {value!r} at offset {offset} within the "
                "transaction that sent it",
                partition.place, (offset,), (event.process,), (value,),
            )  # fmt: skip

    def _place(self, partition: PartitionFacts, write: Write, offset: int) -> None:
        """A value is seen where it was not seen before."""
        there = partition.at.setdefault(offset, write)
        if there is not write:
            clashing = partition.clashes.setdefault(offset, [])
            if write not in clashing:
                clashing.append(write)
        partition.known_high = max(partition.known_high, offset)
        if write.offset is None:
            write.offset = offset
        elif offset not in write.others:
            write.others += (offset,)

    def _note_lag(self, write: Write, event: Event) -> None:
        operation = write.operation
        if operation is None or write.fate is not Fate.COMMITTED:
            return
        lag = event.time - operation.ended_ns
        if lag > self.worst_lag.nanoseconds:
            self.worst_lag = Lag(lag, write.value, write.place.directory, event.process)

    def _find(
        self,
        anomaly: Anomaly,
        text: str,
        place: TopicPartition,
        offsets: tuple[int, ...],
        processes: tuple[str, ...],
        values: tuple[str, ...] = (),
    ) -> None:
        name = place.directory
        self.findings.add(Finding(anomaly, f"{name}: {text}.", (name,), values, offsets, processes))
