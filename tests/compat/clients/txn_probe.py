"""The asker of the transaction differential: producers by name, and what they ask for.

Producer ids differ from broker to broker: what is kept numbers them in each scene.
"""

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from tests.compat.batches import Rec, headers, make_batch
from tests.compat.clients.group_probe import GroupConnection, GroupProbe, Names
from tests.compat.clients.probe import ANSWER_WAIT_S
from tests.compat.raw import Plain

TRANSACTIONAL: Final = 0x10
NOW_MS: Final = round(time.time() * 1000)
ONE: Final = (Rec(value=b"one", timestamp=NOW_MS),)
OLD: Final = (Rec(value=b"old"),)
SETTLE_WAIT_S: Final = 20.0
NOT_YET: Final = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS",
     "NOT_COORDINATOR"}
)  # fmt: skip
_PRODUCER_IDS: Final = frozenset({"producer_id", "v3_and_below_producer_id"})
_TIMES: Final = frozenset(
    {
        "last_timestamp", "transaction_start_time", "timestamp", "base_timestamp", "max_timestamp",
        "log_append_time",
    }
)  # fmt: skip
_REAL_TIME_MS: Final = 1_720_000_000_000
_SORTED: Final = frozenset(
    {
        "active_producers", "transaction_states", "unknown_state_filters", "markers",
        "topic_results", "results_by_partition", "results_by_transaction",
        "results_by_topic_v3_and_below",
    }
)  # fmt: skip


@dataclass
class TxnNames(Names):
    """Names for producer ids and for times of the clock, beside those of groups and topics."""

    producers: dict[int, str] = field(default_factory=dict)

    def _field(self, key: str, value: Any) -> Any:
        if key in _PRODUCER_IDS and isinstance(value, int) and value >= 0:
            return self.producers.setdefault(value, f"<producer {len(self.producers) + 1}>")
        if key in _TIMES and isinstance(value, int) and value > _REAL_TIME_MS:
            return "<now>"
        if key == "records" and isinstance(value, bytes):
            return "; ".join(map(_batch_words, headers(value))) or value
        if key in _SORTED and isinstance(value, list):
            return sorted((self.tidy(row) for row in value), key=repr)
        return super()._field(key, value)


def _batch_words(header: Mapping[str, int]) -> str:
    """A batch in a request, in few words."""
    return (
        f"epoch {header['producer_epoch']} sequence {header['base_sequence']}"
        f" attributes {header['attributes']:#x}"
    )


class Identity(NamedTuple):
    """A transactional id, and the producer id and epoch that go with it."""

    name: str
    producer_id: int
    epoch: int

    def at(self, epoch: int) -> "Identity":
        """The same producer with another epoch."""
        return self._replace(epoch=epoch)

    def batch(
        self, sequence: int, records: Sequence[Rec] = ONE, attributes: int = TRANSACTIONAL
    ) -> bytes:
        """A batch of this producer."""
        return make_batch(
            records, producer=(self.producer_id, self.epoch, sequence), attributes=attributes
        )


def init(name: str | None, timeout: int = 60_000, producer_id: int = -1, epoch: int = -1) -> Plain:
    """An InitProducerId body."""
    return {
        "transactional_id": name,
        "transaction_timeout": timeout,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }


def add(
    who: Identity, topics: Mapping[str, Sequence[int]], version: int, *, verify: bool = False
) -> Plain:
    """An AddPartitionsToTxn body: of one transaction, or from version 4 on a list of one."""
    rows = [{"name": topic, "partitions": list(parts)} for topic, parts in topics.items()]
    old = "v3_and_below_"
    if version < 4:
        return {
            f"{old}transactional_id": who.name,
            f"{old}producer_id": who.producer_id,
            f"{old}producer_epoch": who.epoch,
            f"{old}topics": rows,
        }
    one = {
        "transactional_id": who.name,
        "producer_id": who.producer_id,
        "producer_epoch": who.epoch,
        "verify_only": verify,
        "topics": rows,
    }
    return {"transactions": [one]}


def add_offsets(who: Identity, group: str) -> Plain:
    """An AddOffsetsToTxn body."""
    return {
        "transactional_id": who.name,
        "producer_id": who.producer_id,
        "producer_epoch": who.epoch,
        "group_id": group,
    }


def end(who: Identity, *, commit: bool) -> Plain:
    """An EndTxn body."""
    return {
        "transactional_id": who.name,
        "producer_id": who.producer_id,
        "producer_epoch": who.epoch,
        "committed": commit,
    }


def txn_commit(
    who: Identity, group: str, topics: Mapping[str, Mapping[int, Any]], **more: Any
) -> Plain:
    """A TxnOffsetCommit body: topics as {name: {partition: offset}}."""
    rows = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": number,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": more.get("metadata", ""),
                }
                for number, offset in parts.items()
            ],
        }
        for topic, parts in topics.items()
    ]
    return {
        "transactional_id": who.name,
        "group_id": group,
        "producer_id": who.producer_id,
        "producer_epoch": who.epoch,
        "generation_id": more.get("generation", -1),
        "member_id": more.get("member", ""),
        "group_instance_id": more.get("instance"),
        "topics": rows,
    }


@dataclass(frozen=True)
class Read:
    """How a partition is fetched."""

    committed: bool = True
    version: int = 12
    offset: int = 0
    partition: int = 0

    def body(self, topic: str) -> Plain:
        """A Fetch body for one partition."""
        row = {
            "partition": self.partition,
            "fetch_offset": self.offset,
            "partition_max_bytes": 1 << 20,
        }
        return {
            "replica_id": -1,
            "max_wait": 100,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": int(self.committed),
            "topics": [{"topic": topic, "topic_id": topic, "partitions": [row]}],
        }


class TxnConnection(GroupConnection):
    """A connection that reads DescribeTransactions by hand: kio takes no start time of -1."""

    def answer(self, response: type[Any]) -> Plain:
        """The answer to the last request sent."""
        if response.__name__ != "DescribeTransactionsResponse":
            return super().answer(response)
        return _described_states(Flexible(self.receive(), at=5))


def _described_states(data: "Flexible") -> Plain:
    throttle = data.number(">i")
    states = [_described_state(data) for _ in range(data.varint() - 1)]
    data.skip_tags()
    return {"throttle_time": throttle, "transaction_states": states}


def _described_state(data: "Flexible") -> Plain:
    state: Plain = {
        "error_code": ErrorCode(data.number(">h")).name.upper(),
        "transactional_id": data.text(),
        "transaction_state": data.text(),
        "transaction_timeout": data.number(">i"),
        "transaction_start_time": data.number(">q"),
        "producer_id": data.number(">q"),
        "producer_epoch": data.number(">h"),
        "topics": [],
    }
    for _ in range(data.varint() - 1):
        topic = data.text()
        partitions = [data.number(">i") for _ in range(data.varint() - 1)]
        data.skip_tags()
        state["topics"].append({"topic": topic, "partitions": partitions})
    data.skip_tags()
    return state


@dataclass
class Flexible:
    """Reads the fields of a flexible message one after the other."""

    data: bytes
    at: int

    def number(self, form: str) -> int:
        """A number of struct's `form`."""
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def varint(self) -> int:
        """An unsigned varint."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        """A compact string."""
        size = self.varint() - 1
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def skip_tags(self) -> None:
        """The end of a structure; nobody has tagged fields here."""
        if self.varint():
            raise ValueError("a tagged field")


@dataclass
class TxnProbe(GroupProbe):
    """Asks one broker about transactions."""

    def new_names(self) -> TxnNames:
        """Producers are numbered too."""
        return TxnNames()

    def link(self, who: str) -> GroupConnection:
        """The connection of `who`, which can read transactions that have not begun."""
        if who not in self._others:
            self._others[who] = TxnConnection(
                self.bootstrap, f"client-{who}", wait_s=2 * ANSWER_WAIT_S
            )
        return self._others[who]

    def producer(self, name: str, timeout: int = 60_000, version: int = 5) -> Identity:
        """A producer with an identity of its own: for setting the stage."""
        deadline = time.monotonic() + SETTLE_WAIT_S
        while True:
            # A Kafka makes the topic of transactions when somebody looks for their coordinator.
            self.quietly("find_coordinator", 2, {"key": name, "key_type": 1})
            answer = self.quietly("init_producer_id", version, init(name, timeout))
            if answer.get("error_code") == "NONE":
                break
            if answer.get("error_code") not in NOT_YET or time.monotonic() > deadline:
                raise AssertionError(f"no producer id: {answer}")
            time.sleep(0.05)
        who = Identity(name, answer["producer_id"], answer["producer_epoch"])
        self.names.tidy({"producer_id": who.producer_id})
        return who

    def adds(
        self, name: str, who: Identity, topics: Mapping[str, Sequence[int]], version: int = 3
    ) -> Plain:
        """AddPartitionsToTxn, and the answer kept."""
        return self.ask(name, "add_partitions_to_txn", version, add(who, topics, version))

    def writes(self, name: str, who: Identity, topic: str, sequence: int, **more: Any) -> Plain:
        """Produce one transactional batch (v11 unless told otherwise), and keep the answer."""
        version = more.get("version", 11)
        records = more.get(
            "records", who.batch(sequence, attributes=more.get("attributes", TRANSACTIONAL))
        )
        row = {"index": more.get("partition", 0), "records": records}
        body = {
            "acks": more.get("acks", -1),
            "timeout": 10_000,
            "transactional_id": more.get("transactional_id", who.name),
            "topic_data": [{"name": topic, "topic_id": topic, "partition_data": [row]}],
        }
        return self.ask(name, "produce", version, body)

    def ends(self, name: str, who: Identity, *, commit: bool, version: int = 3) -> Identity:
        """EndTxn, the answer kept, and its markers waited for; who to be from here on."""
        answer = self.ask(name, "end_txn", version, end(who, commit=commit))
        self.settle(who.name)
        if version >= 5 and answer.get("error_code") == "NONE":
            return who._replace(producer_id=answer["producer_id"], epoch=answer["producer_epoch"])
        return who

    def state(self, name: str) -> Plain:
        """What the coordinator says of a transactional id."""
        answer = self.quietly("describe_transactions", 0, {"transactional_ids": [name]})
        states: list[Plain] = answer.get("transaction_states", [answer])
        return states[0]

    def describes(self, name: str, who: Identity | str) -> Plain:
        """DescribeTransactions, and the answer kept."""
        wanted = who if isinstance(who, str) else who.name
        return self.ask(name, "describe_transactions", 0, {"transactional_ids": [wanted]})

    def settle(self, name: str) -> None:
        """Wait until no transaction of this id is being ended."""
        deadline = time.monotonic() + SETTLE_WAIT_S
        while self.state(name).get("transaction_state", "").startswith("Prepare"):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is still being ended")
            time.sleep(0.02)

    def await_state(self, name: str, *states: str) -> None:
        """Wait until a transactional id is in one of these states ('' is: unknown)."""
        deadline = time.monotonic() + SETTLE_WAIT_S
        while self.state(name).get("transaction_state", "") not in states:
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} does not become {states}: {self.state(name)}")
            time.sleep(0.05)

    def reads(self, name: str, topic: str, how: Read = Read()) -> Plain:
        """Fetch, and the answer kept."""
        return self.ask(name, "fetch", how.version, how.body(topic))

    def reads_both(self, name: str, topic: str, how: Read = Read()) -> None:
        """Fetch as both isolation levels do."""
        self.reads(f"{name}, read_committed", topic, how)
        self.reads(f"{name}, read_uncommitted", topic, replace(how, committed=False))

    def producers_of(self, name: str, *topics: str) -> Plain:
        """DescribeProducers of partition 0, and the answer kept."""
        rows = [{"name": topic, "partition_indexes": [0]} for topic in topics]
        return self.ask(name, "describe_producers", 0, {"topics": rows})


TxnScenario = Callable[[TxnProbe], None]
