"""A group member by confluent-kafka; see `group_driver.py`."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.compat.group_driver import (
    POLL_S,
    Options,
    Place,
    Positions,
    RefusedError,
    Row,
    options,
    serve,
    tell,
)


class ConfluentMember:
    """librdkafka in a group."""

    def __init__(self, wanted: Options, positions: Positions) -> None:
        self._consumer = Consumer(_config(wanted))
        self._consumer.subscribe(
            wanted.topics,
            on_assign=lambda _, rows: positions.assigned(_places(rows)),
            on_revoke=lambda _, rows: positions.revoked(_places(rows)),
            on_lost=lambda _, rows: positions.revoked(_places(rows), "lost"),
        )

    def poll(self) -> Sequence[Row]:
        rows: list[Row] = []
        message = self._consumer.poll(POLL_S)
        # What is there already comes along, without waiting for more.
        while message is not None:
            error = message.error()
            if error is not None:
                tell("error", error=error.name())
            else:
                rows.append(_row(message))
            message = self._consumer.poll(0) if len(rows) < 100 else None
        return rows

    def commit(self, offsets: dict[Place, int]) -> None:
        rows = [TopicPartition(topic, partition, at) for (topic, partition), at in offsets.items()]
        try:
            answers = self._consumer.commit(offsets=rows, asynchronous=False)
        except KafkaException as error:
            raise RefusedError(error.args[0].name()) from error
        for answer in answers:
            if answer.error is not None:
                raise RefusedError(answer.error.name())

    def close(self) -> None:
        self._consumer.close()


def _config(wanted: Options) -> dict[str, str | int | bool]:
    config: dict[str, str | int | bool] = {
        "bootstrap.servers": wanted.bootstrap,
        "group.id": wanted.group,
        "group.protocol": wanted.protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": wanted.commit == "auto",
        "auto.commit.interval.ms": 200,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "log_level": 0,
    }
    if wanted.instance_id is not None:
        config["group.instance.id"] = wanted.instance_id
    if wanted.protocol == "consumer":
        config["group.remote.assignor"] = wanted.assignor
    else:
        config["partition.assignment.strategy"] = wanted.assignor
        config["session.timeout.ms"] = wanted.session_ms
        config["heartbeat.interval.ms"] = wanted.heartbeat_ms
    return config


def _places(rows: list[TopicPartition]) -> list[Place]:
    return [(row.topic, row.partition) for row in rows]


def _row(message: Any) -> Row:
    return message.topic(), message.partition(), message.offset(), message.value().decode()


def main() -> None:
    """Be a member."""
    wanted, positions = options(), Positions()
    serve(ConfluentMember(wanted, positions), positions, commit_after=wanted.commit == "after")


if __name__ == "__main__":
    main()
