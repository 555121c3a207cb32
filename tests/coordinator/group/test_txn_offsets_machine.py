"""Offsets under random histories: plain commits, commits within transactions of several producers,
their ends, deletions, compaction of the log, and restarts. A model says what everybody must see."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.coordinator.runtime.loose_log import LooseLog

from barnabas.cluster.image import Image
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import Commit, CommitPartition, FetchOffsets, TxnCommit
from barnabas.coordinator.group.service import StoredCodec
from barnabas.coordinator.group.shard import GroupShard
from barnabas.coordinator.runtime.runtime import Runtime
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker, ProducerIdentity
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import SimLoop
from barnabas.wire.records.batch import parse_header
from barnabas.wire.records.control import decode_marker
from barnabas.wire.records.record import decode_batch, rewrite_batch
from barnabas.wire.stored import Stored

IMAGE = Image(cluster_id="c", controller_id=1, brokers={}, config=BrokerConfig({"node.id": "1"}))
GROUPS, PARTITIONS, PRODUCERS = ("g", "h"), (0, 1), (1, 2)
PLACES = st.sampled_from([("g", 0), ("g", 0), ("g", 1), ("h", 0)])
"""Mostly one: what happens elsewhere does not matter to it."""
WHOM = st.sampled_from(PRODUCERS)
Place: TypeAlias = tuple[str, int]
Event: TypeAlias = tuple[Any, ...]

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), PLACES),
        st.tuples(st.just("write"), PLACES, WHOM),
        st.tuples(st.just("write"), PLACES, WHOM),
        st.tuples(st.just("end"), WHOM, st.booleans()),
        st.tuples(st.just("end"), WHOM, st.booleans()),
        st.tuples(st.just("delete"), PLACES),
        st.tuples(st.just("delete group"), st.sampled_from(GROUPS)),
        st.tuples(st.just("compact")),
        st.tuples(st.just("restart")),
    ),
    min_size=15,
    max_size=40,
)


@dataclass
class Model:
    """Every offset by the time it was written: the last that counts is seen."""

    counts: dict[Place, int] = field(default_factory=dict)
    pending: dict[tuple[int, Place], int] = field(default_factory=dict)

    def remove(self, place: Place) -> None:
        self.counts.pop(place, None)
        self.pending = {each: at for each, at in self.pending.items() if each[1] != place}

    def end(self, producer: int, *, committed: bool) -> None:
        for each in [each for each in self.pending if each[0] == producer]:
            at = self.pending.pop(each)
            if committed and at > self.counts.get(each[1], -1):
                self.counts[each[1]] = at

    def seen(self, place: Place, *, require_stable: bool) -> int | None:
        if require_stable and any(each == place for _, each in self.pending):
            return -1
        return self.counts.get(place)


class Stage:
    """A shard in office, whose committed offsets are the numbers of the events."""

    def __init__(self) -> None:
        self.log = LooseLog()
        self.model = Model()
        self.runtime: Runtime[Stored, GroupShard] = Runtime(
            "__consumer_offsets",
            lambda: GroupShard(GroupSettings, SimEntropy(1)),
            StoredCodec(),
            self,
            lambda: IMAGE,
        )

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def play(self, events: list[Event]) -> None:
        await self.restart()
        for number, event in enumerate(events):
            await self.step(number, *event)
            self.compare()
        await self.restart()
        self.compare()
        self.runtime.close()

    async def step(self, number: int, kind: str, *rest: Any) -> None:
        match kind:
            case "plain":
                self.plain(number, *rest)
            case "write":
                self.write(number, *rest)
            case "end":
                self.end(*rest)
            case "delete":
                self.delete(*rest)
            case "delete group":
                self.delete_group(*rest)
            case "compact":
                compact(self.log)
            case _:
                await self.restart()

    def plain(self, number: int, place: Place) -> None:
        ask = Commit(
            group_id=place[0],
            member_id="",
            instance_id=None,
            generation=-1,
            knows_epochs=True,
            partitions=(at(place, number),),
        )
        answer: Any = self.runtime.ask(0, lambda shard, turn, _: shard.commit(turn, ask))
        assert answer == [ErrorCode.none]
        self.model.counts[place] = number

    def write(self, number: int, place: Place, producer: int) -> None:
        ask = TxnCommit(
            group_id=place[0],
            member_id="",
            instance_id=None,
            generation=-1,
            producer=ProducerIdentity(producer, 0),
            partitions=(at(place, number),),
        )
        answer: Any = self.runtime.ask(0, lambda shard, turn, _: shard.txn_commit(turn, ask))
        assert answer == [ErrorCode.none]
        self.model.pending[producer, place] = number

    def end(self, producer: int, committed: bool) -> None:
        marker = Marker(producer_id=producer, epoch=0, coordinator_epoch=0, committed=committed)
        assert self.runtime.end_transaction(0, marker) is None
        self.model.end(producer, committed=committed)

    def delete(self, place: Place) -> None:
        try:
            self.runtime.ask(
                0,
                lambda shard, turn, _: shard.delete_offsets(turn, place[0], [("t", place[1])]),
            )
        except KafkaError as error:
            if error.code is not ErrorCode.group_id_not_found:
                raise
        self.model.remove(place)

    def delete_group(self, group: str) -> None:
        try:
            self.runtime.ask(0, lambda shard, turn, _: shard.delete_group(turn, group))
        except KafkaError as error:
            if error.code is not ErrorCode.group_id_not_found:
                raise
        for partition in PARTITIONS:
            self.model.remove((group, partition))

    async def restart(self) -> None:
        self.runtime.elect(0, self.log)
        for _ in range(1000):
            try:
                self.runtime.ask(0, lambda shard, *_: shard.list_groups())
            except KafkaError:
                await asyncio.sleep(0.1)
            else:
                return
        raise AssertionError("it is never loaded")

    def compare(self) -> None:
        for group in GROUPS:
            for stable in (False, True):
                ask = FetchOffsets(
                    group_id=group,
                    partitions=tuple(("t", partition) for partition in PARTITIONS),
                    require_stable=stable,
                )
                answer: Any = self.runtime.ask(
                    0, lambda shard, *_, ask=ask: shard.fetch_offsets(ask)
                )
                seen = {place: found.offset for place, found in answer.items()}
                expected = {
                    ("t", partition): offset
                    for partition in PARTITIONS
                    if (offset := self.model.seen((group, partition), require_stable=stable))
                    is not None
                }
                assert seen == expected


def at(place: Place, offset: int) -> CommitPartition:
    return CommitPartition(topic="t", topic_id=bytes(16), partition=place[1], offset=offset)


def compact(log: LooseLog) -> None:
    """As the cleaner may leave the log: of what comes before the first open transaction only the
    last word on each key stays, nothing that was aborted, and no marker of what is gone."""
    outcomes = _outcomes(log)
    first_open = min(
        (first for first, committed in outcomes.values() if committed is None),
        default=log.end_offset,
    )
    newest: dict[bytes, int] = {}
    for base, batch in _batches(log, first_open):
        if not parse_header(batch).is_control and outcomes.get(base, (0, True))[1]:
            newest.update({each.key or b"": each.offset for each in decode_batch(batch)})
    kept, busy = [], set()
    for last, batch in log.batches:
        header = parse_header(batch)
        if last >= first_open:
            kept.append((last, batch))
        elif header.is_control:
            if header.producer_id in busy:
                kept.append((last, batch))
            busy.discard(header.producer_id)
        else:
            records = decode_batch(batch)
            staying = [each for each in records if newest.get(each.key or b"") == each.offset]
            if staying and outcomes.get(header.base_offset, (0, True))[1]:
                kept.append((last, rewrite_batch(header, staying)))
                busy.add(header.producer_id)
    log.batches = kept


def _batches(log: LooseLog, up_to: int) -> list[tuple[int, bytes]]:
    return [(parse_header(batch).base_offset, batch) for last, batch in log.batches if last < up_to]


def _outcomes(log: LooseLog) -> dict[int, tuple[int, bool | None]]:
    """For each transactional batch where its transaction begins, and how it has ended."""
    begun: dict[int, list[int]] = {}
    outcomes: dict[int, tuple[int, bool | None]] = {}
    for base, batch in _batches(log, log.end_offset):
        header = parse_header(batch)
        if header.is_control:
            committed = decode_marker(decode_batch(batch)[0]).committed
            for each in begun.pop(header.producer_id, ()):
                outcomes[each] = (outcomes[each][0], committed)
        elif header.is_transactional:
            mine = begun.setdefault(header.producer_id, [])
            mine.append(base)
            outcomes[base] = (mine[0], None)
    return outcomes


_OLDER_ENDS_LATER: list[Event] = [
    ("write", ("g", 0), 1),
    ("write", ("g", 0), 2),
    ("end", 2, True),
    ("restart",),
    ("end", 1, True),
]


@given(EVENTS)
@example(_OLDER_ENDS_LATER)
@settings(max_examples=100, deadline=None)
def test_everybody_sees_what_the_order_of_the_log_says(events: list[Event]) -> None:
    with asyncio.Runner(loop_factory=lambda: SimLoop(seed=1)) as runner:
        runner.run(Stage().play(events))
