"""Producer ids are handed to brokers in blocks, so that no id is ever given out twice."""

from typing import Final

from barnabas.cluster import layout
from barnabas.model.check import BrokenInvariantError, require
from barnabas.ports.coordination import BadVersionError, Coordination, Node, SetData

BLOCK_SIZE: Final = 1000
"""As in Kafka: one write to the store for a thousand producers; a crash wastes the rest of one."""


def next_block(current: Node, broker: int) -> tuple[range, SetData]:
    """The ids after the last block, and the write that makes them `broker`'s alone."""
    start = layout.decode_producer_ids(current.data).stop if current.data else 0
    require(start <= 2**63 - 1 - BLOCK_SIZE, "every producer id has been given out")
    block = range(start, start + BLOCK_SIZE)
    data = layout.encode_producer_ids(broker, block)
    return block, SetData(layout.PRODUCER_ID_BLOCK, data, current.version)


async def take_block(coordination: Coordination, broker: int) -> range:
    """A block that is `broker`'s alone from now on. When the answer is lost, nobody has it."""
    while True:
        node = await coordination.get(layout.PRODUCER_ID_BLOCK)
        if node is None:
            raise BrokenInvariantError("the cluster has not been started")
        block, write = next_block(node, broker)
        try:
            await coordination.commit(write)
        except BadVersionError:
            # Another broker took that block; ask for the one after it.
            await coordination.sync()
        else:
            return block
