"""A group member by kafka-python; see `group_driver.py`."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition  # type: ignore[import-untyped]
from kafka.coordinator.assignors.cooperative_sticky import (  # type: ignore[import-untyped]
    CooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]
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

_ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Passes on what the library says about partitions."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._positions.assigned(_places(assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._positions.revoked(_places(revoked))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._positions.revoked(_places(lost), "lost")


class KafkaPythonMember:
    """kafka-python in a group."""

    def __init__(self, wanted: Options, positions: Positions) -> None:
        self._consumer = KafkaConsumer(
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

    def poll(self) -> Sequence[Row]:
        batches = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        return [_row(record) for batch in batches.values() for record in batch]

    def commit(self, offsets: dict[Place, int]) -> None:
        wanted = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for (topic, partition), offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted)
        except KafkaError as error:
            raise RefusedError(type(error).__name__) from error

    def close(self) -> None:
        self._consumer.close()


def _places(rows: Iterable[TopicPartition]) -> list[Place]:
    return [(row.topic, row.partition) for row in rows]


def _row(record: Any) -> Row:
    return record.topic, record.partition, record.offset, record.value.decode()


def main() -> None:
    """Be a member."""
    wanted, positions = options(), Positions()
    serve(KafkaPythonMember(wanted, positions), positions, commit_after=wanted.commit == "after")


if __name__ == "__main__":
    main()
