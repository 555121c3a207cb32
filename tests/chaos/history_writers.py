"""Producers that record what they do: transactional, idempotent and plain ones."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.chaos import talk, transacting
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place
from tests.chaos.transacting import SOON, FencedError, error_of

from barnabas.link.sync import Link

_FLUSH_S: Final = 120.0
_SAYS_NOTHING: Final = "returned NULL without setting an exception"


class _Sends:
    """Values on their way, and the offsets they got."""

    def __init__(self, names: Sequence[tuple[Place, str]], key: str | None) -> None:
        self.names = names
        self.key = key
        self.offsets: dict[str, int | None] = {}
        self.failed = 0

    def steps(self) -> list[list[Any]]:
        """As they are recorded."""
        return [
            ["send", topic, partition, value, self.offsets.get(value), self.key]
            for (topic, partition), value in self.names
        ]

    def produce(self, producer: Producer) -> None:
        """Hand them to librdkafka and wait until it has done with them."""
        try:
            for (topic, partition), value in self.names:
                producer.produce(
                    topic, value=value, key=self.key, partition=partition,
                    on_delivery=self._delivered,
                )  # fmt: skip
                producer.poll(0)
            producer.flush(_FLUSH_S)
        except SystemError as error:
            # A producer that is fenced raises, and calls us back all the same: Python minds that.
            if isinstance(error.__cause__, KafkaException):
                raise error.__cause__ from None
            if _SAYS_NOTHING not in str(error):
                raise
            # Or it has forgotten what it was to raise: all that is known is that these failed.
            self.failed += 1

    @property
    def are_all_there(self) -> bool:
        """Whether each was acknowledged."""
        return not self.failed and not self.lacking

    @property
    def lacking(self) -> int:
        """How many were not acknowledged: they failed, or were not heard of in time."""
        return len(self.names) - len(self.offsets)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        offset = message.offset()
        told = None if offset is None or offset < 0 else offset
        self.offsets[(message.value() or b"").decode()] = told


class Writer:
    """Numbers its values, so that none is sent twice; `name` must be new in each run."""

    def __init__(self, recorder: Recorder, name: str, places: Sequence[Place]) -> None:
        self.recorder = recorder
        self.name = name
        self.places = places
        self._number = 0

    def take(self, count: int, key: str | None = None) -> _Sends:
        """The next values, round the partitions."""
        names = []
        for _ in range(count):
            self._number += 1
            place = self.places[self._number % len(self.places)]
            names.append((place, f"{self.name}-{self._number}"))
        return _Sends(names, key)


class SendingWriter(Writer):
    """Without transactions."""

    def __init__(
        self, recorder: Recorder, name: str, places: Sequence[Place], address: str,
        *, idempotent: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(recorder, name, places)
        self.lacking = 0
        """Records that were not acknowledged."""
        self._flag = {} if idempotent else {"idempotent": False}
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": idempotent,
                "acks": -1,
                "linger.ms": 2,
                "delivery.timeout.ms": 300_000,
                **SOON,
            }
        )

    def send(self, count: int, key: str | None = None) -> bool:
        """So many records; whether all were acknowledged."""
        sends = self.take(count, key)
        self.recorder.note(self.name, "invoke", "send", sends.steps(), **self._flag)
        sends.produce(self._producer)
        kind = "ok" if sends.are_all_there else "info"
        self.recorder.note(self.name, kind, "send", sends.steps())
        self.lacking += sends.lacking
        return sends.are_all_there


class TransactionalWriter(Writer):
    """With transactions; a group's offset may go with each of them."""

    def __init__(
        self, recorder: Recorder, name: str, places: Sequence[Place], address: str,
        transactional_id: str, group: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(recorder, name, places)
        self._producer = transacting.transactional_producer(address, transactional_id)
        self._group = group
        self._offset = 0
        self._member = (
            None if group is None else Consumer({"bootstrap.servers": address, "group.id": group})
        )

    def transact(
        self, count: int, *, commits: bool = True, key: str | None = None,
        hold: Callable[[], None] = lambda: None,
    ) -> str:  # fmt: skip
        """One transaction; how it ended. `hold` is called when everything is stored."""
        sends = self.take(count, key)
        self.recorder.note(self.name, "invoke", "txn", sends.steps() + self._offset_steps())
        try:
            outcome = self._attempt(sends, hold, commits=commits)
        except FencedError:
            self.recorder.note(self.name, "info", "txn")
            raise
        self.recorder.note(self.name, outcome, "txn", sends.steps() if outcome == "ok" else None)
        return outcome

    def _attempt(self, sends: _Sends, hold: Callable[[], None], *, commits: bool) -> str:
        try:
            self._producer.begin_transaction()
            sends.produce(self._producer)
            self._send_offset()
        except KafkaException as problem:
            if not error_of(problem).txn_requires_abort():
                raise FencedError(str(problem)) from problem
            commits = False
        hold()
        if not commits or not sends.are_all_there:
            transacting.abort(self._producer)
            return "fail"
        self.recorder.note(self.name, "commit", "txn")
        return transacting.commit(self._producer)

    def _offset_steps(self) -> list[list[Any]]:
        if self._group is None:
            return []
        self._offset += 1
        topic, partition = self.places[0]
        return [["offset", self._group, topic, partition, self._offset]]

    def _send_offset(self) -> None:
        if self._member is None:
            return
        place = TopicPartition(*self.places[0], self._offset)
        metadata = self._member.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([place], metadata, transacting.PATIENCE_S)

    def close(self) -> None:
        """Let go of the group."""
        if self._member is not None:
            self._member.close()


class RepeatingWriter(Writer):
    """An idempotent producer by raw requests: what it begins it can send again, byte for byte."""

    def __init__(self, recorder: Recorder, name: str, places: Sequence[Place], link: Link) -> None:
        super().__init__(recorder, name, places)
        self._identity = talk.new_producer_id(link)
        self._sequence = 0
        self._sends = _Sends([], None)
        self._batch = b""

    def begin(self, link: Link, count: int) -> None:
        """Send records, and do not hear what becomes of them."""
        self._prepare(count)
        talk.produce(link, self.places[0], self._batch)

    def again(self, link: Link) -> None:
        """Send the same batch once more, and hear."""
        first = talk.produce(link, self.places[0], self._batch)
        for number, (_, value) in enumerate(self._sends.names):
            self._sends.offsets[value] = None if first < 0 else first + number
        self.recorder.note(self.name, "ok", "send", self._sends.steps())

    def send(self, link: Link, count: int) -> None:
        """Send records, and hear."""
        self._prepare(count)
        self.again(link)

    def _prepare(self, count: int) -> None:
        self._sends = self.take(count)
        values = [value.encode() for _, value in self._sends.names]
        self._batch = talk.batch_of(*values, producer=(*self._identity, self._sequence))
        self._sequence += count
        self.recorder.note(self.name, "invoke", "send", self._sends.steps())
