"""Batches on their way to the leaders: several requests at a time, in order, until acknowledged.

What a broker has not acknowledged is kept. After a lost connection or an error that passes by
itself all of it is sent again, in the order and with the sequence numbers it had, so that a
broker that has a batch already takes it for the repeat it is.

While requests are in flight nothing else may be asked on the same links: whoever needs the
cluster in the middle of a write asks through the session, which first waits for what is due.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol

from barnabas.link.broker import Broker
from barnabas.model.check import require
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.cluster.metadata import Node
from barnabas.spark.cluster.retrying import ASKED_AGAIN
from barnabas.spark.places import Place
from barnabas.spark.sink.batches import SEQUENCES, Numbering, Section, finish, halves
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.outcomes import (
    Duplicate,
    OutOfOrderSequenceError,
    WrittenRows,
    advice_on,
    duplicate_of,
    refuse_batch,
)
from barnabas.wire.apis import PRODUCE
from barnabas.wire.produce import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
)
from barnabas.wire.produce_client import encode_produce_request, parse_produce_response
from barnabas.wire.records.batch import parse_header

PRODUCE_VERSION_MAX: Final = 12
"""The newest that names topics by name. It puts partitions into transactions by itself (KIP-890);
with 11 whoever writes a transaction has to add them first."""

_TOO_LARGE: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_OUT_OF_ORDER: Final = (ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id)
_TIMEOUT_SHARE: Final = 0.75
"""Of the time we wait for an answer, how long a leader may wait for its followers."""


class ProducerIdentity(Protocol):
    """Who writes: what InitProducerId gave."""

    @property
    def id(self) -> int:
        """The producer id."""

    @property
    def epoch(self) -> int:
        """The producer epoch."""


class _Batch:
    """One batch until it is acknowledged."""

    __slots__ = ("data", "limit", "place", "sends", "tried")

    def __init__(self, place: Place, data: bytes, limit: int) -> None:
        self.place = place
        self.data = data
        self.limit = limit
        """How large it was allowed to be, before compression."""
        self.sends = 0
        self.tried = False
        """Whether it had its turn, and be it that there was nobody to send it to."""


class _Request(NamedTuple):
    version: int
    batches: list[_Batch]


class _Lane:
    """What is on its way to one leader, and what waits for its turn."""

    def __init__(self, node: Node) -> None:
        self.node: Final = node
        self.broker: Broker | None = None
        self.waiting: deque[_Batch] = deque()
        self.waiting_bytes = 0
        self.in_flight: deque[_Request] = deque()

    def put(self, batch: _Batch) -> None:
        self.waiting.append(batch)
        self.waiting_bytes += len(batch.data)

    def take(self, bytes_max: int, held: set[Place]) -> list[_Batch]:
        """The batches of one request: in order, one for a partition, none for those `held`."""
        taken: list[_Batch] = []
        passed: list[_Batch] = []
        places = held
        size = 0
        while self.waiting and size < bytes_max:
            batch = self.waiting.popleft()
            full = bool(taken) and size + len(batch.data) > bytes_max
            if full or batch.place in places:
                passed.append(batch)
            else:
                taken.append(batch)
                size += len(batch.data)
            # Also of one that was passed: nothing overtakes what comes before it.
            places.add(batch.place)
        self.waiting.extendleft(reversed(passed))
        self.waiting_bytes -= size
        return taken


class ProducerSession:
    """Writes batches as one producer, or as nobody in particular where `producer` is None.

    `before_first` is told of partitions before the first batch for them is sent, while nothing is
    in flight. After an error the session must be abandoned: its links are shared.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        producer: ProducerIdentity | None,
        *,
        transactional_id: str | None = None,
        first_sequences: Mapping[Place, int] | None = None,
        produce_version_max: int = PRODUCE_VERSION_MAX,
        before_first: Callable[[Collection[Place]], None] | None = None,
    ) -> None:
        require(
            transactional_id is None or (producer is not None and options.acks == -1),
            "a transaction needs a producer and acks=all",
        )
        self.cluster: Final = cluster
        self.options: Final = options
        self.duplicates: list[Duplicate] = []
        self.sequences: dict[Place, int] = dict(first_sequences or {})
        """The next sequence number of each partition."""
        self._numbering = (
            Numbering()
            if producer is None
            else Numbering(producer.id, producer.epoch, transactional_id is not None)
        )
        self._transactional_id = transactional_id
        self._version_max = produce_version_max
        self._before_first = before_first
        self._lanes: dict[Node, _Lane] = {}
        self._leaders: dict[Place, Node] = {}
        self._pending: dict[Place, deque[_Batch]] = {}
        self._written: dict[Place, WrittenRows] = {}
        self._batch_bytes: dict[str, int] = {}
        self._begun: set[Place] = set()
        """Partitions with an acknowledged batch."""
        self._patience = cluster.patience("Writing")
        self._stuck: _Batch | None = None
        """What the patience is for, until it is acknowledged, whatever becomes of others."""
        connection = options.connection
        wait_s = min(connection.request_timeout_s, connection.patience_s)
        self._timeout_ms = max(int(wait_s * _TIMEOUT_SHARE * 1000), 1)

    # What a writer calls

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """How many partitions each topic has; UnknownTopicError names those that do not exist."""
        self._settle()
        return self.cluster.partition_counts(topics)

    def batch_bytes(self, topic: str) -> int:
        """How large a batch may grow; less, once a broker has found one of the topic too large."""
        return self._batch_bytes.get(topic, self.options.batch_bytes)

    def announce(self, places: Collection[Place]) -> None:
        """Say which partitions come next, so that one question serves for all that are new."""
        new = [place for place in places if place not in self._leaders]
        if not new:
            return
        self._settle()
        if self._before_first is not None:
            self._before_first(new)
        self._leaders |= self.cluster.leaders(new)

    def send(self, place: Place, section: Section) -> None:
        """Send it, or keep it until there is enough for a request; waits while too much is due."""
        self.announce((place,))
        sequence = -1
        if self._numbering.producer_id >= 0:
            sequence = self.sequences.get(place, 0)
            self.sequences[place] = (sequence + section.count) % SEQUENCES
        data = finish(section, self._numbering, sequence, self.options)
        batch = _Batch(place, data, self.batch_bytes(place.topic))
        self._pending.setdefault(place, deque()).append(batch)
        lane = self._lane_of(place)
        lane.put(batch)
        if lane.waiting_bytes >= self.options.record_bytes_max:
            self._pump(lane, self.options.record_bytes_max)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        while self._pending:
            for lane in self._lanes.values():
                if not self._pump(lane, 0):
                    break
            else:
                self._drain()

    def abandon(self) -> None:
        """After an error. What is in flight may still be written; its answers are for nobody."""
        for lane in self._lanes.values():
            if lane.in_flight:
                self._hang_up(lane)

    def take_written(self) -> dict[Place, WrittenRows]:
        """What was acknowledged since the last call."""
        written, self._written = self._written, {}
        return written

    # On the way

    def _settle(self) -> None:
        """Nothing in flight, so that the links can be asked something else."""
        if any(lane.in_flight for lane in self._lanes.values()):
            self._drain()

    def _lane_of(self, place: Place) -> _Lane:
        node = self._leaders[place]
        lane = self._lanes.get(node)
        if lane is None:
            lane = self._lanes[node] = _Lane(node)
        return lane

    def _pump(self, lane: _Lane, leave: int) -> bool:
        """Send until at most `leave` bytes wait. False: something failed, all was put in order."""
        while lane.waiting and lane.waiting_bytes >= leave:
            batches: list[_Batch] = []
            if len(lane.in_flight) < self.options.in_flight_max:
                batches = lane.take(self.options.record_bytes_max, self._held(lane))
            problem = self._transmit(lane, batches) if batches else self._receive(lane)
            if problem is not None:
                self._recover(problem)
                return False
        return True

    def _held(self, lane: _Lane) -> set[Place]:
        """Partitions whose first batch is on its way, and which have to wait for it.

        A leader that does not know a producer takes whatever comes first of it: when the first
        batch fails and the second does not, the first would be out of order for ever.
        """
        if len(self._begun) == len(self._leaders):
            return set()
        return {
            batch.place
            for request in lane.in_flight
            for batch in request.batches
            if batch.place not in self._begun
        }

    def _drain(self) -> None:
        """Wait for the answers to all requests; what they leave undone waits again."""
        problem: Exception | None = None
        for lane in self._lanes.values():
            while lane.in_flight:
                failed = self._receive(lane)
                # Later ones are but consequences of the first.
                problem = problem or failed
        if problem is not None:
            self._recover(problem)

    def _transmit(self, lane: _Lane, batches: list[_Batch]) -> Exception | None:
        for batch in batches:
            batch.tried = True
        try:
            if not lane.in_flight or lane.broker is None:
                lane.broker = self.cluster.broker(lane.node)
            version = lane.broker.version(PRODUCE, at_most=self._version_max)
            lane.in_flight.append(_Request(version, batches))
            for batch in batches:
                batch.sends += 1
            answered = self.options.acks != 0
            body = encode_produce_request(version, self._request(batches))
            lane.broker.link.send_frame(PRODUCE, version, body, answered=answered)
        except (OSError, DecodeError) as problem:
            return self._lost(lane, problem)
        if not answered:
            for batch in lane.in_flight.pop().batches:
                self._acknowledge(batch, -1)
        return None

    def _request(self, batches: list[_Batch]) -> ProduceRequest:
        topics: dict[str, list[ProducePartition]] = {}
        for batch in batches:
            topics.setdefault(batch.place.topic, []).append(
                ProducePartition(batch.place.partition, memoryview(batch.data))
            )
        return ProduceRequest(
            self._transactional_id,
            self.options.acks,
            self._timeout_ms,
            [ProduceTopic(name, None, partitions) for name, partitions in topics.items()],
        )

    def _receive(self, lane: _Lane) -> Exception | None:
        """One answer; the first of its errors that sending again may mend."""
        require(lane.broker is not None, "an answer is due on a link")
        request = lane.in_flight[0]
        try:
            answer = lane.broker.link.receive_frame()  # type: ignore[union-attr]
            response = parse_produce_response(request.version, answer.frame, answer.body_at)
        except (OSError, DecodeError) as problem:
            return self._lost(lane, problem)
        lane.in_flight.popleft()
        results = {
            Place(topic.name or "", result.index): result
            for topic in response.topics
            for result in topic.partitions
        }
        failed: Exception | None = None
        for batch in request.batches:
            result = results.get(batch.place)
            if result is None:
                return self._lost(lane, DecodeError(f"the broker says nothing of {batch.place}"))
            failed = self._judge(batch, result) or failed
        return failed

    def _lost(self, lane: _Lane, problem: Exception) -> Exception:
        self._hang_up(lane)
        return problem

    def _hang_up(self, lane: _Lane) -> None:
        if lane.broker is not None:
            lane.broker.close()
        lane.in_flight.clear()

    # What an answer means

    def _judge(self, batch: _Batch, result: ProducePartitionResult) -> Exception | None:
        code = ErrorCode(result.error)
        place = batch.place
        if code is ErrorCode.none or code is ErrorCode.duplicate_sequence_number:
            if code is not ErrorCode.none or result.log_append_time_ms >= 0:
                self.duplicates.append(
                    duplicate_of(place, batch.data, result.base_offset, resent=batch.sends > 1)
                )
            self._acknowledge(batch, result.base_offset)
            return None
        header = parse_header(batch.data)
        if code in _OUT_OF_ORDER:
            if batch is self._pending[place][0]:
                raise OutOfOrderSequenceError(
                    place, header.base_sequence, result.message or code.name.upper()
                )
            # One before it has failed, and this one with it.
            return advice_on(ErrorCode.request_timed_out, result.message)
        if code in _TOO_LARGE and header.count > 1:
            return self._split(batch)
        if code not in ASKED_AGAIN:
            refuse_batch(place, code, result.message, header.size)
        problem = advice_on(code, result.message)
        return KafkaError(problem.code, f"{place}: {problem.message}")

    def _acknowledge(self, batch: _Batch, base_offset: int) -> None:
        place = batch.place
        self._begun.add(place)
        pending = self._pending[place]
        pending.remove(batch)
        if not pending:
            del self._pending[place]
        written = self._written.get(place)
        if written is None:
            written = self._written[place] = WrittenRows()
        written.add(parse_header(batch.data), base_offset)

    def _split(self, batch: _Batch) -> "_TooLargeError":
        """Two halves in its place, and smaller batches from now on."""
        pending = self._pending[batch.place]
        at = pending.index(batch)
        pending.remove(batch)
        topic, limit = batch.place.topic, max(batch.limit // 2, 1)
        for half in reversed(halves(batch.data, self.options.codec_level)):
            pending.insert(at, _Batch(batch.place, half, limit))
        # Of several that are refused at a time, each was made under the same limit.
        self._batch_bytes[topic] = min(self.batch_bytes(topic), limit)
        return _TooLargeError()

    def _recover(self, problem: Exception) -> None:
        """Let time pass, find the leaders anew, and queue all that is not acknowledged."""
        for lane in self._lanes.values():
            while lane.in_flight:
                self._receive(lane)
        if not isinstance(problem, _TooLargeError):
            self._look_for_stuck()
            self._patience.wait_after(problem)
            self.cluster.forget_leaders()
            self._leaders |= self.cluster.leaders(self._pending)
        for lane in self._lanes.values():
            lane.waiting.clear()
            lane.waiting_bytes = 0
        for place, batches in self._pending.items():
            lane = self._lane_of(place)
            for batch in batches:
                lane.put(batch)

    def _look_for_stuck(self) -> None:
        """Only time in trouble counts, not that of whoever makes the rows."""
        if self._stuck is not None and self._stuck in self._pending.get(self._stuck.place, ()):
            return
        self._patience.renew()
        heads = [batches[0] for batches in self._pending.values()]
        self._stuck = next((batch for batch in heads if batch.tried), None)


class _TooLargeError(Exception):
    """A batch was cut in two: nothing has to be waited for."""
