"""The smallest shard there is: names with numbers, for trying out the runtime."""

from collections.abc import Collection
from typing import NamedTuple

from barnabas.cluster.image import Topic
from barnabas.coordinator.runtime.turn import PARKED, Parked, TimerKey, Turn, Waiter
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError


class Entry(NamedTuple):
    name: str
    number: int | None


class EntryCodec:
    def encode(self, record: Entry) -> tuple[bytes, bytes | None]:
        value = None if record.number is None else str(record.number).encode()
        return record.name.encode(), value

    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        if key == b"foreign":
            return None
        try:
            return Entry(key.decode(), None if value is None else int(value))
        except ValueError as error:
            raise DecodeError(str(error)) from error


class Register:
    """`put` writes, `get` reads, `meet` waits for a second one to come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.waiting: list[Waiter] = []
        self.loads = 0
        self.deleted: list[str] = []

    def apply(self, record: Entry) -> None:
        if record.number is None:
            self.numbers.pop(record.name, None)
        else:
            self.numbers[record.name] = record.number

    def loaded(self, turn: Turn[Entry]) -> None:
        self.loads += 1

    def fire(self, turn: Turn[Entry], key: TimerKey) -> None:
        turn.write(Entry(key.group, 0))
        for waiter in self.waiting:
            turn.refuse(waiter, KafkaError(ErrorCode.request_timed_out))
        self.waiting = []

    def topics_changed(self, turn: Turn[Entry], topics: Collection[Topic]) -> None:
        raise KafkaError(ErrorCode.invalid_request)

    def topics_deleted(self, turn: Turn[Entry], topics: Collection[Topic]) -> None:
        self.deleted += [topic.name for topic in topics]

    # --- requests ------------------------------------------------------------------------------

    def put(self, turn: Turn[Entry], name: str, number: int | None) -> int:
        turn.write(Entry(name, number))
        return len(self.numbers)

    def get(self, name: str) -> int | None:
        return self.numbers.get(name)

    def meet(self, turn: Turn[Entry], waiter: Waiter, patience_ms: int = 60_000) -> Parked:
        self.waiting.append(waiter)
        if len(self.waiting) == 1:
            turn.schedule(TimerKey("late", "late"), patience_ms)
        else:
            turn.cancel(TimerKey("late", "late"))
            for number, each in enumerate(self.waiting):
                turn.reply(each, number)
            self.waiting = []
        return PARKED
