"""DescribeLogDirs on three brokers: each tells of its own disk."""

from typing import Any

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from tests.broker.trio import NUMBERS, TOPIC, Trio, machine, play


async def row_of(trio: Trio, number: int) -> Any:
    """What a broker tells of the partition, and that it tells of its one directory."""
    client = await trio.client(number)
    answer = await client.link.call(35, 5, DescribeLogDirsRequest(topics=None))
    await client.link.close()
    (directory,) = answer.results
    assert 0 < directory.usable_bytes <= directory.total_bytes
    (topic,) = (each for each in directory.topics if each.name == TOPIC)
    (row,) = topic.partitions
    assert not row.is_future_key
    return row


def test_every_replica_tells_its_own_size() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(5)
        await trio.until(lambda: {trio.partition(n).high_watermark for n in NUMBERS} == {5})
        rows = [await row_of(trio, number) for number in NUMBERS]
        assert {row.offset_lag for row in rows} == {0}
        assert {row.partition_size for row in rows} == {trio.partition(1).log.size}
        # Broker 3 is cut off, and comes back.
        trio.loop.network.cut(machine(1), machine(3))
        await trio.write(5)
        await trio.until_in_sync(1, 2)
        assert (await row_of(trio, 3)).partition_size == rows[0].partition_size
        assert (await row_of(trio, 1)).offset_lag == 0
        trio.loop.network.heal(machine(1), machine(3))
        await trio.until_in_sync(1, 2, 3)
        rows = [await row_of(trio, number) for number in NUMBERS]
        assert {(row.partition_size, row.offset_lag) for row in rows} == {
            (trio.partition(1).log.size, 0)
        }

    play(scene)
