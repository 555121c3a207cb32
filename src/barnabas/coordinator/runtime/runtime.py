"""The shards of one internal topic that are in office at this broker."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, TypeVar

from barnabas.cluster.image import Image, Topic
from barnabas.coordinator.runtime.codec import Codec
from barnabas.coordinator.runtime.log import ShardLog
from barnabas.coordinator.runtime.seat import Seat
from barnabas.coordinator.runtime.shard import Shard
from barnabas.coordinator.runtime.turn import Answer, Parked, Turn, Waiter
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.ports.clock import Clock

R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S", bound=Shard[Any])


class Runtime(Generic[R, S]):
    """One seat for each partition of `topic` that this broker leads."""

    def __init__(
        self,
        topic: str,
        new_shard: Callable[[], S],
        codec: Codec[R],
        clock: Clock,
        image: Callable[[], Image],
    ) -> None:
        self._topic = topic
        self._new_shard = new_shard
        self._codec = codec
        self._clock = clock
        self._image = image
        self._seats: dict[int, Seat[R, S]] = {}

    def elect(self, partition: int, log: ShardLog) -> None:
        """This broker leads the partition now: its shard is loaded and takes office."""
        self.resign(partition)
        self._seats[partition] = Seat(
            f"{self._topic}-{partition}",
            log,
            self._new_shard,
            self._codec,
            self._clock,
            self._image,
        )

    def resign(self, partition: int) -> None:
        """This broker leads the partition no more."""
        seat = self._seats.pop(partition, None)
        if seat is not None:
            seat.close()

    def ask(self, partition: int, decide: Callable[[S, Turn[R], Waiter], T | Parked]) -> Answer[T]:
        """What the shard of `partition` decides, or a future of it. Raises KafkaError."""
        return self._seat(partition).ask(decide)

    def end_transaction(self, partition: int, marker: Marker) -> Answer[None]:
        """Write a marker into `partition`; the answer comes once that is committed.

        Raises KafkaError.
        """
        return self._seat(partition).end_transaction(marker)

    def _seat(self, partition: int) -> Seat[R, S]:
        seat = self._seats.get(partition)
        if seat is None:
            raise KafkaError(ErrorCode.not_coordinator)
        return seat

    def partitions(self) -> Iterator[int]:
        """Those with a shard in office, or on its way there."""
        return iter(tuple(self._seats))

    def topics_changed(self, topics: Collection[Topic]) -> None:
        """Topics came, or got other partitions."""
        for seat in tuple(self._seats.values()):
            seat.topics_changed(topics)

    def topics_deleted(self, topics: Collection[Topic]) -> None:
        """Topics are gone."""
        for seat in tuple(self._seats.values()):
            seat.topics_deleted(topics)

    def close(self) -> None:
        """Everybody leaves office."""
        for partition in self.partitions():
            self.resign(partition)
