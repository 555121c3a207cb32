"""Topics as they are at the end: every committed record, place by place."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

_END_OF_PARTITION = -191


def committed(servers: str, topic: str, partitions: int) -> Iterator[Message]:
    """Every committed record of the topic, up to its end as it is now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.max.bytes": 8 << 20,
            "queued.max.messages.kbytes": 32 << 10,
        }
    )
    try:
        consumer.assign(
            [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)]
        )
        ended: set[int | None] = set()
        while len(ended) < partitions:
            for message in consumer.consume(10_000, timeout=0.2):
                problem = message.error()
                if problem is None:
                    yield message
                elif problem.code() == _END_OF_PARTITION:
                    ended.add(message.partition())
                else:
                    raise AssertionError(f"reading {topic}: {problem}")
    finally:
        consumer.close()
