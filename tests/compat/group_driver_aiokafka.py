"""A group member by aiokafka; see `group_driver.py`."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from tests.compat.group_driver import (
    POLL_S,
    Options,
    Place,
    Positions,
    RefusedError,
    Row,
    options,
    serve,
)

_ASSIGNORS: Final = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Passes on what the library says about partitions."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._positions.assigned(_places(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._positions.revoked(_places(revoked))


class AiokafkaMember:
    """aiokafka in a group; its loop runs while it is polled, so work on this thread blocks it."""

    def __init__(self, wanted: Options, positions: Positions) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start(wanted, positions))

    async def _start(self, wanted: Options, positions: Positions) -> None:
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=wanted.bootstrap,
            group_id=wanted.group,
            group_instance_id=wanted.instance_id,
            partition_assignment_strategy=[_ASSIGNORS[wanted.assignor]],
            session_timeout_ms=wanted.session_ms,
            heartbeat_interval_ms=wanted.heartbeat_ms,
            auto_offset_reset="earliest",
            enable_auto_commit=wanted.commit == "auto",
            auto_commit_interval_ms=200,
            fetch_max_wait_ms=100,
        )
        self._consumer.subscribe(wanted.topics, listener=Listener(positions))
        await self._consumer.start()

    def poll(self) -> Sequence[Row]:
        waiting = self._consumer.getmany(timeout_ms=int(POLL_S * 1000))
        batches = self._loop.run_until_complete(waiting)
        return [_row(record) for batch in batches.values() for record in batch]

    def commit(self, offsets: dict[Place, int]) -> None:
        wanted = {
            TopicPartition(topic, partition): offset
            for (topic, partition), offset in offsets.items()
        }
        try:
            self._loop.run_until_complete(self._consumer.commit(wanted))
        except KafkaError as error:
            raise RefusedError(type(error).__name__) from error

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())


def _places(rows: Iterable[TopicPartition]) -> list[Place]:
    return [(row.topic, row.partition) for row in rows]


def _row(record: Any) -> Row:
    return record.topic, record.partition, record.offset, record.value.decode()


def main() -> None:
    """Be a member."""
    wanted, positions = options(), Positions()
    serve(AiokafkaMember(wanted, positions), positions, commit_after=wanted.commit == "after")


if __name__ == "__main__":
    main()
