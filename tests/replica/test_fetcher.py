"""One broker copies from another over a connection: real requests, real logs, a pretended wire."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.replica.conftest import NOW_MS
from tests.replica.exchange import Desk

from barnabas.api import fetch
from barnabas.api.context import Services
from barnabas.api.fetch_sessions import FetchSessions
from barnabas.cluster.image import BrokerNode, Image, PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig
from barnabas.log.store import LogStore
from barnabas.net.listener import Listener
from barnabas.ports.exchange import Peer, Reply
from barnabas.replica import parked
from barnabas.replica.copying import Copier
from barnabas.replica.fetcher import Fetcher, FetchSettings, Followed
from barnabas.replica.parked import GATHER_BYTES, ParkedFetch
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.wire.headers import parse_request_header
from barnabas.wire.records.record import encode_batch
from barnabas.world.memory import MemoryFiles

LEADER, FOLLOWER, PORT = 1, 2, 9092


def topic(number: int, leader: int = LEADER, epoch: int = 0, **config: Any) -> Topic:
    """One partition on both brokers."""
    isr = PartitionState(leader, epoch, (LEADER, FOLLOWER), (LEADER, FOLLOWER), epoch)
    return Topic(f"t{number}", uuid.UUID(int=number), (isr,), {}, TopicConfig(**config))


class Broker:
    """The logs of one broker, and a listener that knows Fetch."""

    def __init__(self, loop: SimLoop, me: int) -> None:
        self.clock = SimClock(loop)
        self.work = SimWork(loop, me)
        store = LogStore(MemoryFiles(), "data", self.clock, SimEntropy(me))
        self.replicas = Replicas(store, self.work, pytest.fail, me)
        image = Image(cluster_id="c", controller_id=1, brokers={}, config=BrokerConfig({}))
        sessions = FetchSessions(self.clock, SimEntropy(me))
        self._desk = Desk(image, cast(Any, self.replicas), sessions, self.clock)
        self.listener = Listener(self._dispatch)
        self.asked = 0
        self.asked_bytes = 0

    def forget_sessions(self) -> None:
        self._desk.sessions = FetchSessions(self.clock, SimEntropy(99))

    def _dispatch(self, peer: Peer, frame: memoryview) -> Reply:
        self.asked += 1
        self.asked_bytes = len(frame)
        return fetch.handle(cast(Services, self._desk), peer, parse_request_header(frame), frame)

    def partition(self, number: int) -> Partition:
        found = self.replicas.find(f"t{number}", 0)
        assert found is not None
        return found

    def append(self, number: int, *values: bytes, everywhere: bool = False) -> Any:
        view = memoryview(bytearray(encode_batch([(NOW_MS, b"k", each, []) for each in values])))
        partition = self.partition(number)
        header = partition.log.check(view, NOW_MS)
        return partition.append(view, header, NOW_MS, everywhere=everywhere)[1]


class RealisticClock(SimClock):
    """Time goes on between one look at it and the next, and is not quite that of the timers."""

    _looks = 0

    def monotonic(self) -> float:
        self._looks += 1
        return super().monotonic() * 0.9995 + self._looks * 0.0003


class Pair:
    """A leader, a follower, and what copies from one to the other."""

    def __init__(
        self, loop: SimLoop, settings: FetchSettings, clock: type[SimClock] = SimClock
    ) -> None:
        self.loop = loop
        self.leader, self.follower = Broker(loop, LEADER), Broker(loop, FOLLOWER)
        self.node: BrokerNode | None = BrokerNode(LEADER, "127.0.0.1", PORT)
        ticking = clock(loop)
        self.fetcher = Fetcher(
            LEADER,
            lambda _: self.node,
            lambda: (FOLLOWER, 7),
            Copier(ticking),
            ticking,
            lambda: settings,
        )

    async def create(self, *topics: Topic) -> None:
        for each in topics:
            await self.leader.replicas.create(each)
            await self.follower.replicas.create(each)
            partition = self.follower.replicas.by_id[each.id_bytes].partitions[0]
            self.fetcher.add(Followed(partition, each.id_bytes, partition.leader_epoch))

    def same(self, number: int) -> bool:
        ours, theirs = self.leader.partition(number), self.follower.partition(number)
        return ours.log.end_offset == theirs.log.end_offset == theirs.high_watermark


def play(
    scene: Callable[[Pair], Any],
    settings: FetchSettings | None = None,
    clock: type[SimClock] = SimClock,
) -> None:
    async def main(loop: SimLoop) -> None:
        pair = Pair(loop, settings or FetchSettings(), clock)
        await pair.leader.listener.start("127.0.0.1", PORT)
        await scene(pair)
        await pair.fetcher.close()
        await pair.leader.listener.stop(0)

    run(main, 0)


def test_what_is_appended_is_copied_and_committed_soon() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1), topic(2))
        for number in range(20):
            await pair.leader.append(1 + number % 2, b"%d" % number, everywhere=True)
        assert pair.loop.time() < 20 * FetchSettings().wait_ms / 1000
        await asyncio.sleep(1)
        assert pair.same(1)
        assert pair.same(2)

    play(scene)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So much patience that it can be told from what the network takes."""
    monkeypatch.setattr(parked, "GATHER_S", 0.3)


@pytest.mark.usefixtures("patient")
def test_what_nobody_waits_for_is_copied_in_few_answers() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1))
        await pair.leader.append(1, b"first", everywhere=True)
        await asyncio.sleep(1)
        asked = pair.leader.asked
        for number in range(50):
            pair.leader.append(1, b"%d" % number)
            await asyncio.sleep(0.004)
        await asyncio.sleep(0.2)
        assert pair.same(1)
        assert pair.leader.asked - asked < 5
        # What somebody waits for is copied at once, and takes along what came before it.
        began = pair.loop.time()
        pair.leader.append(1, b"nobody waits")
        await pair.leader.append(1, b"somebody waits", everywhere=True)
        assert pair.loop.time() - began < 0.1

    play(scene)


@pytest.mark.usefixtures("patient")
def test_what_a_reader_waits_for_is_copied_at_once() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1))
        await pair.leader.append(1, b"first", everywhere=True)
        await asyncio.sleep(1)
        reader = ParkedFetch(1, 10)
        pair.leader.partition(1).park_fetch(reader)
        began = pair.loop.time()
        pair.leader.append(1, b"second")
        await reader.done
        assert pair.loop.time() - began < 0.1

    play(scene)


@pytest.mark.usefixtures("patient")
def test_much_that_nobody_waits_for_is_copied_at_once() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1))
        await pair.leader.append(1, b"first", everywhere=True)
        await asyncio.sleep(1)
        pair.leader.append(1, b"x" * GATHER_BYTES)
        await asyncio.sleep(0.1)
        assert pair.follower.partition(1).log.end_offset == 2

    play(scene)


def test_partitions_without_news_are_not_spoken_of() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(*(topic(number) for number in range(1, 101)))
        await asyncio.sleep(2)
        for number in (1, 50, 1, 100):
            await pair.leader.append(number, b"a", everywhere=True)
            assert pair.leader.asked_bytes < 300
        await asyncio.sleep(1)
        assert all(pair.same(number) for number in range(1, 101))

    play(scene)


def test_what_is_committed_is_told_again_to_a_follower_that_did_not_take_it_in() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1))
        await pair.leader.append(1, b"a", everywhere=True)
        await asyncio.sleep(1)
        follower = pair.follower.partition(1)
        assert follower.high_watermark == 1
        follower.high_watermark = 0
        await asyncio.sleep(2)
        assert follower.high_watermark == 1

    play(scene)


def test_a_follower_of_an_idle_partition_is_not_taken_for_slow() -> None:
    """That it is not spoken of does not mean that it is not there."""

    async def scene(pair: Pair) -> None:
        await pair.create(topic(1), topic(2))
        for _ in range(100):
            pair.leader.append(2, b"a")
            await asyncio.sleep(1)
        pair.leader.append(1, b"a")
        in_sync = pair.leader.partition(1).in_sync
        assert in_sync is not None
        assert in_sync.shrunk(1, pair.loop.time(), 5.0) is None
        await pair.fetcher.close()
        pair.leader.append(1, b"b")
        await asyncio.sleep(6)
        assert in_sync.shrunk(2, pair.loop.time(), 5.0) == (LEADER,)

    play(scene)


def test_a_leader_that_has_forgotten_what_was_asked_for_is_asked_anew() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1), topic(2))
        await pair.leader.append(1, b"a", everywhere=True)
        pair.leader.forget_sessions()
        began = pair.loop.time()
        for number in (1, 2, 1):
            await pair.leader.append(number, b"b", everywhere=True)
        assert pair.loop.time() - began < FetchSettings().wait_ms / 1000

    play(scene)


def test_what_is_left_out_for_a_while_is_not_said_to_be_there_meanwhile() -> None:
    """A session repeats what was said last, unless it is told not to."""

    async def scene(pair: Pair) -> None:
        await pair.create(topic(1, flush_messages=1), topic(2))
        await pair.leader.append(1, b"a", everywhere=True)
        hung: asyncio.Future[None] = pair.loop.create_future()
        pair.follower.partition(1)._syncing = hung
        pair.leader.append(1, b"b")
        for number in range(20):
            await pair.leader.append(2, b"%d" % number, everywhere=True)
        assert pair.follower.partition(1).log.end_offset == 2
        assert pair.leader.partition(1).high_watermark == 1
        session = pair.fetcher._session
        assert [number for _, number in session._sent] == [0]

    play(scene)


def test_a_leader_that_hears_late_of_its_office_is_asked_again_soon() -> None:
    async def scene(pair: Pair) -> None:
        late = topic(1)
        await pair.follower.replicas.create(late)
        partition = pair.follower.partition(1)
        pair.fetcher.add(Followed(partition, late.id_bytes, partition.leader_epoch))
        await asyncio.sleep(0.01)
        await pair.leader.replicas.create(late)
        await pair.leader.append(1, b"a", everywhere=True)
        assert pair.loop.time() < 0.1

    play(scene)


def test_a_leader_that_is_not_there_is_tried_again() -> None:
    async def scene(pair: Pair) -> None:
        node, pair.node = pair.node, None
        await pair.create(topic(1))
        pair.leader.append(1, b"a")
        await asyncio.sleep(5)
        assert not pair.same(1)
        pair.node = node
        await asyncio.sleep(2)
        assert pair.same(1)
        pair.loop.network.break_all()
        pair.leader.append(1, b"b")
        await asyncio.sleep(3)
        assert pair.same(1)

    play(scene)


def test_a_partition_that_the_leader_does_not_lead_keeps_nobody_else_back() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1), topic(2))
        pair.leader.replicas.change(topic(1, leader=FOLLOWER, epoch=1), [0])
        for _ in range(20):
            await pair.leader.append(2, b"a", everywhere=True)
        assert pair.loop.time() < 3

    play(scene)


def test_a_partition_that_is_left_out_for_a_while_is_not_left_out_for_ever() -> None:
    """Its time may come just after it was found not to have come yet."""

    async def scene(pair: Pair) -> None:
        late = topic(1)
        await pair.follower.replicas.create(late)
        partition = pair.follower.partition(1)
        pair.fetcher.add(Followed(partition, late.id_bytes, partition.leader_epoch))
        await asyncio.sleep(60)
        await pair.leader.replicas.create(late)
        pair.leader.append(1, b"a")
        await asyncio.sleep(5)
        assert pair.same(1)

    play(scene, clock=RealisticClock)


def test_everybody_gets_a_turn_when_answers_have_little_room() -> None:
    """A large partition, always with more to copy, comes first only once."""

    async def scene(pair: Pair) -> None:
        await pair.create(*(topic(number) for number in range(1, 5)))
        for number in range(1, 5):
            for _ in range(30):
                pair.leader.append(number, b"x" * 900)
        for _ in range(40):
            await asyncio.sleep(0.05)
            ends = [pair.follower.partition(number).log.end_offset for number in range(1, 5)]
            assert max(ends) - min(ends) <= 2

    play(scene, FetchSettings(response_bytes=1000))


def test_with_flush_messages_1_a_follower_counts_for_what_it_has_synced() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1, flush_messages=1), topic(2))
        for number in range(10):
            waiting = pair.leader.append(1, b"%d" % number, everywhere=True)
            while not waiting.done():
                await asyncio.sleep(0.001)
                log = pair.follower.partition(1).log
                mark = pair.leader.partition(1).high_watermark
                assert mark <= log.recovery_point
        # No answer had to wait for the other partition, about which there was nothing to tell.
        assert pair.loop.time() < 10

    play(scene)


def test_what_flush_messages_1_finds_unsynced_is_synced_before_more_is_asked_for() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1))
        await pair.leader.append(1, b"a", everywhere=True)
        changed = topic(1, flush_messages=1)
        pair.leader.replicas.configure(changed)
        pair.follower.replicas.configure(changed)
        for _ in range(3):
            await pair.leader.append(1, b"b", everywhere=True)
        assert pair.follower.partition(1).log.recovery_point >= 3

    play(scene)


def test_a_sync_that_hangs_keeps_nobody_else_back_for_long() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1, flush_messages=1), topic(2))
        hung: asyncio.Future[None] = pair.loop.create_future()
        stuck = pair.follower.partition(1)
        stuck._syncing = hung
        pair.leader.append(1, b"a")
        await asyncio.sleep(1)
        for number in range(5):
            await pair.leader.append(2, b"%d" % number, everywhere=True)
        assert pair.loop.time() < 10
        assert pair.leader.partition(1).high_watermark == 0

    play(scene)


def test_a_defect_with_one_partition_is_that_partitions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1), topic(2))

        def broken(_: int) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(type(pair.follower.partition(1)), "learn_committed", _only(2, broken))
        pair.leader.append(1, b"a")
        for number in range(5):
            await pair.leader.append(2, b"%d" % number, everywhere=True)

    def _only(number: int, broken: Callable[[int], None]) -> Any:
        learn = Partition.learn_committed

        def learn_committed(self: Partition, offset: int) -> None:
            if self.log.partition.topic == f"t{number}":
                learn(self, offset)
            else:
                broken(offset)

        return learn_committed

    play(scene)
    assert "a defect in copying t1-0" in caplog.text


def test_what_is_removed_is_copied_no_more() -> None:
    async def scene(pair: Pair) -> None:
        await pair.create(topic(1))
        await pair.leader.append(1, b"a", everywhere=True)
        pair.fetcher.remove(pair.follower.partition(1).log.partition)
        assert pair.fetcher.is_idle
        pair.leader.append(1, b"b")
        await asyncio.sleep(5)
        assert pair.follower.partition(1).log.end_offset == 1

    play(scene)
