"""Transactional producers, as they talk to a broker without sockets."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.api.conftest import KEYS, plain
from tests.api.group_talk import SETTINGS as GROUP_SETTINGS
from tests.api.group_talk import frame, say
from tests.api.hot_path import answer_of, batch, fetch_one, produce

from barnabas.wire.headers import parse_response_header
from barnabas.wire.messages import decode_response
from barnabas.wire.records.batch import parse_header
from barnabas.wire.records.record import decode_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api.conftest import House

SETTINGS = {
    **GROUP_SETTINGS,
    "transaction.state.log.num.partitions": "2",
    "add.partitions.to.txn.retry.backoff.max.ms": "60000",
}
"""For houses with transactions: few shards to load, and patience on a busy machine."""

CLASSIC = 11
"""The newest Produce of clients that add their partitions by requests of their own."""
BUMPED = 12
"""The first Produce that adds partitions."""

READ_COMMITTED = 1


class Identity(NamedTuple):
    """A transactional producer as its broker knows it."""

    name: str
    producer_id: int
    epoch: int

    @property
    def body(self) -> dict[str, Any]:
        """What the requests of transactions have in common."""
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def batch(self, *values: bytes, sequence: int = 0, **options: Any) -> bytes:
        """A transactional batch."""
        facts = {
            "transactional": True,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
        }
        return batch(*values, **{**facts, **options})


def coordinate(house: House) -> None:
    """Have transactions coordinated: their topic exists and is loaded."""
    house.ask("find_coordinator", 4, key_type=1, coordinator_keys=["any"])
    until(house, lambda: say(house, "list_transactions", 2)["error_code"] == "none")


def until(house: House, condition: Callable[[], bool]) -> None:
    """Let the broker go on until something is so."""
    for _ in range(2000):
        if condition():
            return
        house.run(asyncio.sleep(0.005))
    raise AssertionError("it did not come to that")


def init_body(name: str | None, **more: Any) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "transaction_timeout": timedelta(minutes=1),
        "producer_id": -1,
        "producer_epoch": -1,
        **more,
    }


def init(house: House, name: str = "t", version: int = 5, **more: Any) -> Identity:
    """A producer that may begin."""
    answer = say(house, "init_producer_id", version, **init_body(name, **more))
    assert answer["error_code"] == "none"
    return Identity(name, answer["producer_id"], answer["producer_epoch"])


def add_body(identity: Identity, *partitions: tuple[str, int], **more: Any) -> dict[str, Any]:
    """AddPartitionsToTxn in the form of either generation."""
    topics = [
        {"name": name, "partitions": [index for topic, index in partitions if topic == name]}
        for name in dict.fromkeys(topic for topic, _ in partitions)
    ]
    return {
        **{f"v3_and_below_{name}": value for name, value in identity.body.items()},
        "v3_and_below_topics": topics,
        "transactions": [{**identity.body, "topics": topics, **more}],
    }


def add(
    house: House, identity: Identity, *partitions: tuple[str, int], version: int = 3, **more: Any
) -> list[str]:
    """The result of each partition."""
    answer = say(house, "add_partitions_to_txn", version, **add_body(identity, *partitions, **more))
    if version >= 4:
        assert answer["error_code"] == "none"
        (transaction,) = answer["results_by_transaction"]
        topics = transaction["topic_results"]
    else:
        topics = answer["results_by_topic_v3_and_below"]
    return [
        row["partition_error_code"] for topic in topics for row in topic["results_by_partition"]
    ]


def end(house: House, identity: Identity, *, committed: bool, version: int = 3) -> Any:
    """The answer to EndTxn."""
    return say(house, "end_txn", version, **identity.body, committed=committed)


def send(
    house: House, identity: Identity, data: bytes, topic: str = "t", index: int = 0, **more: Any
) -> Any:
    """What becomes of a batch that is produced as part of a transaction."""
    version = more.pop("version", BUMPED)
    (row,) = produce(house, version, (topic, index, data), transactional_id=identity.name, **more)
    return row


def describe(house: House, *names: str) -> list[Any]:
    """DescribeTransactions. (kio's own reader takes no times before 1970.)"""
    key = KEYS["describe_transactions"]
    answer = house.send(frame(house, "describe_transactions", 0, transactional_ids=names))
    _, start = parse_response_header(key, 0, answer)
    told: list[Any] = plain(decode_response(key, 0, answer[start:]))["transaction_states"]
    return told


def state(house: House, name: str = "t") -> str:
    """The state of one transaction."""
    (told,) = describe(house, name)
    assert told["error_code"] == "none"
    found: str = told["transaction_state"]
    return found


def finish(house: House, identity: Identity, *, committed: bool, version: int = 3) -> Any:
    """End a transaction, and wait until its markers are written."""
    answer = end(house, identity, committed=committed, version=version)
    assert answer["error_code"] == "none"
    complete = "CompleteCommit" if committed else "CompleteAbort"
    until(house, lambda: state(house, identity.name) == complete)
    return answer


def values(house: House, topic: str = "t", index: int = 0) -> list[bytes | None]:
    """What a consumer of committed records gets to see, aborted ones left out by its own work."""
    seen: list[bytes | None] = []
    offset = 0
    while True:  # One answer is of one segment.
        row = fetch_one(house, topic, offset, index=index, isolation_level=READ_COMMITTED)
        if not row["records"]:
            return seen
        offset = _see(row, seen)


def _see(row: Any, seen: list[bytes | None]) -> int:
    """Add to `seen` what an answer to Fetch holds; where to go on."""
    aborted = sorted(
        (each["first_offset"], each["producer_id"]) for each in row["aborted_transactions"]
    )
    skipped: set[int] = set()
    data, position, offset = row["records"], 0, 0
    while position < len(data):
        header, records = parse_header(data, position), decode_batch(data, position)
        position += header.size
        offset = header.last_offset + 1
        while aborted and aborted[0][0] <= header.last_offset:
            skipped.add(aborted.pop(0)[1])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            seen += [record.value for record in records]
    return offset


async def answers(house: House, *frames: bytes) -> list[bytes]:
    """The answers to requests that are sent one after the other, without waiting."""
    waiting = [asyncio.ensure_future(answer_of(house, each)) for each in frames]
    told = await asyncio.wait_for(asyncio.gather(*waiting), 30)
    return [each for each in told if each is not None]
