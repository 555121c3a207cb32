"""The table of what transactions must do with every client library."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from tests.compat.batches import Rec, make_batch
from tests.compat.clients.probe import Probe
from tests.compat.clients.txn_probe import TxnProbe
from tests.compat.txn_port import (
    COMMITTED,
    LINGERING,
    UNCOMMITTED,
    WAIT_S,
    Copy,
    Reading,
    TxnClient,
    TxnRefusedError,
)

END: Final = "end"
SHORT_MS: Final = 1000


@dataclass
class TxnStage:
    """What a scenario plays on: clients of one library, and topics and ids of its own."""

    kind: Callable[[str], TxnClient]
    bootstrap: str
    prefix: str = field(default_factory=lambda: uuid.uuid4().hex[:10])
    made: int = 0

    def name(self, what: str) -> str:
        """A name that nobody has used."""
        self.made += 1
        return f"{what}-{self.prefix}-{self.made}"

    def topic(self, partitions: int = 1) -> str:
        """A new topic."""
        name = self.name("topic")
        with self.probe() as probe:
            probe.make_topic(name, partitions)
        return name

    @contextmanager
    def probe(self) -> Iterator[TxnProbe]:
        """Raw questions."""
        probe = TxnProbe(self.bootstrap)
        try:
            yield probe
        finally:
            probe.hang_up()
            Probe.reconnect(probe)

    def plainly(self, topic: str, partition: int, values: Sequence[str]) -> None:
        """Write outside of every transaction."""
        now = round(time.time() * 1000)
        batch = make_batch([Rec(value=value.encode(), timestamp=now) for value in values])
        row = {"index": partition, "records": batch}
        body = {
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [{"name": topic, "partition_data": [row]}],
        }
        with self.probe() as probe:
            answer = probe.must("produce", 12, body)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE"

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        """Where a group is, once nothing of it is pending."""
        row = {"name": topic, "partition_indexes": [partition]}
        body = {"groups": [{"group_id": group, "topics": [row]}], "require_stable": True}
        deadline = time.monotonic() + WAIT_S
        while True:
            with self.probe() as probe:
                answer = probe.must("offset_fetch", 8, body)
            found = answer["groups"][0]["topics"][0]["partitions"][0]
            if found["error_code"] == "NONE":
                return int(found["committed_offset"])
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def client(self) -> TxnClient:
        """Another client of the library."""
        return self.kind(self.bootstrap)

    def read(self, topic: str, partition: int = 0, how: Reading = COMMITTED) -> list[str]:
        """What a new reader sees before the word that ends a scenario."""
        with self.client() as client:
            values = client.read(topic, partition, END, how)
        assert values[-1] == END
        return values[:-1]

    @contextmanager
    def readers(self, topic: str, partitions: int = 1) -> Iterator[list["Future[list[str]]"]]:
        """Readers that are there all along, each with a client of its own."""
        with ThreadPoolExecutor(partitions) as pool:
            yield [pool.submit(self.read, topic, number) for number in range(partitions)]


def commits_appear_whole(stage: TxnStage) -> None:
    topic = stage.topic(2)
    with stage.client() as client, stage.readers(topic, 2) as readers:
        client.open(stage.name("txn"))
        for n in range(3):
            client.begin()
            client.send(topic, 0, [f"a{n}", f"b{n}"])
            client.send(topic, 1, [f"c{n}"])
            client.commit()
        for partition in (0, 1):
            stage.plainly(topic, partition, [END])
        seen = [reader.result() for reader in readers]
    assert seen == [["a0", "b0", "a1", "b1", "a2", "b2"], ["c0", "c1", "c2"]]


def aborts_never_appear(stage: TxnStage) -> None:
    topic = stage.topic()
    with stage.client() as client, stage.readers(topic) as readers:
        client.open(stage.name("txn"))
        for n, ending in enumerate((client.abort, client.commit, client.abort, client.abort)):
            client.begin()
            client.send(topic, 0, [f"x{n}", f"y{n}"])
            ending()
        stage.plainly(topic, 0, [END])
        assert readers[0].result() == ["x1", "y1"]
    assert stage.read(topic) == ["x1", "y1"]
    everything = ["x0", "y0", "x1", "y1", "x2", "y2", "x3", "y3"]
    assert stage.read(topic, how=UNCOMMITTED) == everything


def readers_wait_for_what_is_open(stage: TxnStage) -> None:
    topic = stage.topic()
    with stage.client() as client, stage.client() as other:
        stage.plainly(topic, 0, ["before"])
        client.open(stage.name("txn"))
        client.begin()
        client.send(topic, 0, ["open"])
        stage.plainly(topic, 0, ["after"])
        assert other.read(topic, 0, "before", LINGERING) == ["before"]
        with stage.readers(topic) as readers:
            client.abort()
            stage.plainly(topic, 0, [END])
            assert readers[0].result() == ["before", "after"]


def _write(client: TxnClient, topic: str, value: str) -> None:
    client.begin()
    client.send(topic, 0, [value])
    client.commit()


def a_zombie_is_fenced(stage: TxnStage) -> None:
    topic, name = stage.topic(), stage.name("txn")
    with stage.client() as zombie, stage.client() as heir:
        zombie.open(name)
        zombie.begin()
        zombie.send(topic, 0, ["zombie"])
        heir.open(name)
        _write(heir, topic, "heir")
        with pytest.raises(TxnRefusedError) as refused:
            zombie.commit()
        assert refused.value.fenced
        _write(heir, topic, "heir again")
    stage.plainly(topic, 0, [END])
    assert stage.read(topic) == ["heir", "heir again"]


def a_zombie_cannot_write(stage: TxnStage) -> None:
    topic, name = stage.topic(), stage.name("txn")
    with stage.client() as zombie, stage.client() as heir:
        if zombie.claims_again:
            pytest.skip("it fences its heir instead")
        zombie.open(name)
        _write(zombie, topic, "zombie")
        heir.open(name)
        with pytest.raises(TxnRefusedError) as refused:
            _write(zombie, topic, "late")
        assert refused.value.fenced
    stage.plainly(topic, 0, [END])
    assert stage.read(topic) == ["zombie"]


def offsets_move_with_the_transaction(stage: TxnStage) -> None:
    topic, group = stage.topic(), stage.name("group")
    with stage.client() as client:
        if not client.sends_offsets:
            pytest.skip("offsets go only with its own loop")
        client.open(stage.name("txn"))
        client.begin()
        client.send(topic, 0, ["one"])
        client.offsets(group, topic, {0: 5})
        client.commit()
        assert stage.committed(group, topic) == 5
        client.begin()
        client.offsets(group, topic, {0: 9})
        client.send(topic, 0, ["two"])
        client.abort()
        assert stage.committed(group, topic) == 5
        client.begin()
        client.offsets(group, topic, {0: 7})
        client.commit()
        assert stage.committed(group, topic) == 7
    stage.plainly(topic, 0, [END])
    assert stage.read(topic) == ["one"]


def a_copier_copies_once(stage: TxnStage) -> None:
    source, target, group = stage.topic(2), stage.topic(2), stage.name("group")
    values = [[f"{partition}.{n}" for n in range(60)] for partition in (0, 1)]
    for partition in (0, 1):
        stage.plainly(source, partition, values[partition])
    with stage.client() as client:
        job = Copy(source=source, target=target, group=group, count=120)
        client.copy(job, stage.name("txn"))
    for partition in (0, 1):
        stage.plainly(target, partition, [END])
        assert stage.read(target, partition) == [f"{value}!" for value in values[partition]]
        assert stage.committed(group, source, partition) == 60


def what_takes_too_long_is_aborted(stage: TxnStage) -> None:
    topic, name = stage.topic(), stage.name("txn")
    with stage.client() as client:
        client.open(name, SHORT_MS)
        client.begin()
        client.send(topic, 0, ["late"])
        with stage.probe() as probe:
            probe.await_state(name, "CompleteAbort")
        with pytest.raises(TxnRefusedError):
            client.commit()
    stage.plainly(topic, 0, [END])
    assert stage.read(topic) == []


SCENARIOS: Final[tuple[Callable[[TxnStage], Any], ...]] = (
    commits_appear_whole,
    aborts_never_appear,
    readers_wait_for_what_is_open,
    a_zombie_is_fenced,
    a_zombie_cannot_write,
    offsets_move_with_the_transaction,
    a_copier_copies_once,
    what_takes_too_long_is_aborted,
)


def scenario_name(scenario: Callable[..., Any]) -> str:
    """As tests are called."""
    return scenario.__name__.replace("_", " ")
