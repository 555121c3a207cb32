"""The demonstration's groups: two that share, one that sees everything, each at its own pace."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from barnabas.cli.client import settings
from barnabas.cli.demo_clients import WAIT_S
from barnabas.model.errors import BarnabasError

_POLL_S: Final = 0.05
_COMMIT_EVERY: Final = 500
_SESSION_MS: Final = 6000

Place = tuple[int, int]
"""Partition and offset."""


class Group:
    """Some consumers that share a topic; their commits are synchronous."""

    def __init__(
        self, bootstrap: str, name: str, topic: str, *, members: int, protocol: str
    ) -> None:
        self.name = name
        self.protocol = protocol
        self._consumers = [self._join(bootstrap, topic) for _ in range(members)]
        self.seen: list[Counter[Place]] = [Counter() for _ in range(members)]

    def _join(self, bootstrap: str, topic: str) -> Any:
        from confluent_kafka import Consumer

        config = {
            **settings(bootstrap),
            "group.id": self.name,
            "group.protocol": self.protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if self.protocol == "classic":
            # A member that closes before it has found the restarted broker again leaves no word:
            # whoever comes next waits until its session is over.
            config["session.timeout.ms"] = _SESSION_MS
        consumer = Consumer(config)
        # What was read is committed before another member takes over.
        consumer.subscribe([topic], on_revoke=lambda consumer, _: _commit(consumer))
        return consumer

    def assigned(self, partitions: int) -> None:
        """Wait until every member has something and all of it is given out."""

        def whole() -> bool:
            shares = [len(each.assignment()) for each in self._consumers]
            return all(shares) and sum(shares) == partitions

        self._poll_until(whole, f"the members of {self.name} did not share the topic")

    def read(self, count: int) -> None:
        """Until `count` different events were seen since the beginning; then commit."""
        self._poll_until(
            lambda: len(self.places()) >= count,
            f"group {self.name} did not get to see all events",
        )
        self._commit()

    def places(self) -> set[Place]:
        """Everything that any member has seen."""
        return set().union(*self.seen)

    def repeats(self) -> int:
        """How many were seen more than once, by one member or by several."""
        total: Counter[Place] = Counter()
        for each in self.seen:
            total += each
        return sum(1 for count in total.values() if count > 1)

    def _poll_until(self, done: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + WAIT_S
        polled = 0
        while not done():
            if time.monotonic() > deadline:
                raise BarnabasError(f"The demonstration found a mismatch: {otherwise}.")
            for consumer, seen in zip(self._consumers, self.seen, strict=True):
                message = consumer.poll(0 if polled else _POLL_S)
                if message is None:
                    polled = 0
                elif message.error() is None:
                    seen[message.partition(), message.offset()] += 1
                    polled += 1
            if polled >= _COMMIT_EVERY:
                self._commit()
                polled = 0

    def _commit(self) -> None:
        for consumer in self._consumers:
            _commit(consumer)

    def leave(self) -> None:
        """Everybody goes; what was committed stays."""
        for consumer in self._consumers:
            consumer.close()


def _commit(consumer: Any) -> None:
    from confluent_kafka import KafkaError, KafkaException

    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise  # (There being nothing new to commit is no reason.)


def rows(groups: Sequence[Group]) -> list[tuple[object, ...]]:
    """One line for each group."""
    return [
        (
            group.name,
            group.protocol,
            " + ".join(str(len(seen)) for seen in group.seen),
            len(group.places()),
            group.repeats(),
        )
        for group in groups
    ]
