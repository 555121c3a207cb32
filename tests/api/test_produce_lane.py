"""The lane answers byte for byte what the long way would have answered, or it is not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.hot_path import (
    PRODUCE_VERSIONS,
    Sent,
    StillClock,
    answer_of,
    batch,
    batch_of_size,
    produce,
    produce_frame,
)

from barnabas.cluster.configs import ConfigEdit, ConfigResource, IncrementalChange
from barnabas.cluster.topics import NewPartitions, NewTopic
from barnabas.model.errors import DecodeError
from barnabas.ports.exchange import Peer
from barnabas.sim.entropy import SimEntropy
from barnabas.wire.headers import parse_request_header, request_header
from barnabas.wire.records.compression import CODECS_BY_NAME

if TYPE_CHECKING:
    from tests.api.conftest import House

BuildHouse = Callable[..., "House"]

LANE_VERSIONS = [version for version in PRODUCE_VERSIONS if version >= 5]
ONE = batch(b"one")

# The length before the records of a flexible request, and the lengths inside the records, change
# their size here.
SIZES = [*range(125, 132), *range(16_380, 16_388)]
PAYLOADS = {size: batch_of_size(size) for size in SIZES}


def _peer() -> Peer:
    return Peer(1, ("127.0.0.1", 50000), ("127.0.0.1", 9092))


def _in_lane(house: House, frame: bytes) -> bool:
    """Whether the next dispatch of `frame` takes the short cut."""
    lane = house.peer.state
    return (
        lane is not None
        and lane.generation == house.replicas.generation
        and lane.records(memoryview(frame)) is not None
    )


def _configure(house: House, topic: str, key: str, value: str) -> None:
    edit = ConfigEdit(key, 0, value)
    change = IncrementalChange(ConfigResource(2, topic), [edit])
    (result,) = house.run(house.cluster.incremental_alter_configs([change]))
    assert result.code.name == "none", result


# --- when there is one --------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_the_second_request_is_in_its_lane(house: House, version: int, acks: int) -> None:
    house.topic("t")
    frames = [produce_frame(house, version, ("t", 0, ONE), acks=acks) for _ in range(3)]
    assert not _in_lane(house, frames[0])
    house.run(answer_of(house, frames[0]))
    assert _in_lane(house, frames[1]) == (version in LANE_VERSIONS and acks != 0)
    house.run(answer_of(house, frames[1]))
    assert house.partition("t").log.end_offset == 2


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_what_differs_is_not_in_the_lane(house: House, version: int) -> None:
    house.topic("t", 2)
    house.topic("u")
    house.send(produce_frame(house, version, ("t", 0, ONE)))
    same = produce_frame(house, version, ("t", 0, PAYLOADS[130]))
    assert _in_lane(house, same)
    other_version = 5 if version > 5 else 6
    others = [
        produce_frame(house, version, ("t", 1, ONE)),
        produce_frame(house, version, ("u", 0, ONE)),
        produce_frame(house, version, ("t", 0, ONE), acks=1),
        produce_frame(house, version, ("t", 0, ONE), timeout_ms=1),
        produce_frame(house, version, ("t", 0, ONE), transactional_id="x"),
        produce_frame(house, version, ("t", 0, ONE), ("u", 0, ONE)),
        produce_frame(house, version, ("t", 0, ONE), ("t", 1, ONE)),
        produce_frame(house, version, ("t", 0, None)),
        produce_frame(house, version),
        produce_frame(house, other_version, ("t", 0, ONE)),
        same + b"\0",
        same[:-1],
    ]
    assert [n for n, frame in enumerate(others) if _in_lane(house, frame)] == []


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_requests_for_several_partitions_open_no_lane(house: House, version: int) -> None:
    house.topic("t", 2)
    house.topic("u")
    cases: list[list[Sent]] = [
        [("t", 0, ONE), ("t", 1, ONE)],
        [("t", 0, ONE), ("u", 0, ONE)],
        [("t", 0, None)],
        [("t", 9, ONE)],
        [("nowhere", 0, ONE)],
        [],
    ]
    for sent in cases:
        house.send(produce_frame(house, version, ("t", 0, ONE)))
        assert house.peer.state is not None
        house.send(produce_frame(house, version, *sent))
        assert house.peer.state is None


# --- when things change -------------------------------------------------------------------------


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_a_deleted_topic_has_no_lane(house: House, version: int) -> None:
    house.topic("t")
    frame = produce_frame(house, version, ("t", 0, ONE))
    house.send(frame)
    house.run(house.cluster.delete_topics(["t"]))
    assert not _in_lane(house, frame)
    missing = "unknown_topic_id" if version >= 13 else "unknown_topic_or_partition"
    assert [row["error_code"] for row in produce(house, version, ("t", 0, ONE))] == [missing]


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_a_topic_made_anew_gets_the_records(house: House, version: int) -> None:
    house.topic("t")
    frame = produce_frame(house, version, ("t", 0, ONE))
    for _ in range(3):
        house.send(frame)
    old = house.partition("t")
    house.run(house.cluster.delete_topics(["t"]))
    house.topic("t")
    (row,) = produce(house, version, ("t", 0, ONE))
    assert (row["error_code"], row["base_offset"]) == ("none", 0)
    assert (old.log.end_offset, house.partition("t").log.end_offset) == (3, 1)


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_a_topic_that_grows_keeps_its_partitions(house: House, version: int) -> None:
    house.topic("t")
    house.send(produce_frame(house, version, ("t", 0, ONE)))
    house.run(house.cluster.create_partitions([NewPartitions("t", 3)]))
    rows = [produce(house, version, ("t", index, ONE))[0] for index in (0, 2, 2)]
    assert [(row["index"], row["base_offset"]) for row in rows] == [(0, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_settings_hold_at_once(house: House, version: int) -> None:
    house.topic("t")

    def error(records: bytes) -> str:
        frame = produce_frame(house, version, ("t", 0, records))
        assert _in_lane(house, frame)
        (row,) = produce(house, version, ("t", 0, records))
        return str(row["error_code"])

    produce(house, version, ("t", 0, ONE))
    assert error(PAYLOADS[16_383]) == "none"
    _configure(house, "t", "max.message.bytes", "1000")
    assert error(PAYLOADS[16_383]) == "message_too_large"
    assert error(ONE) == "none"
    _configure(house, "t", "cleanup.policy", "compact")
    assert error(ONE) == "invalid_record"
    assert error(batch(b"v", key=b"k")) == "none"
    _configure(house, "t", "cleanup.policy", "delete")
    _configure(house, "t", "message.timestamp.type", "LogAppendTime")
    (row,) = produce(house, version, ("t", 0, ONE))
    assert row["log_append_time"] is not None
    _configure(house, "t", "compression.type", "gzip")
    assert error(ONE) == "none"


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_the_start_of_the_log_that_is_told_is_the_present_one(house: House, version: int) -> None:
    house.topic("t")
    produce(house, version, ("t", 0, ONE))
    house.partition("t").log.advance_start(1)
    (row,) = produce(house, version, ("t", 0, ONE))
    assert row["log_start_offset"] == 1


# --- the same as without ------------------------------------------------------------------------


class Twins:
    """Two equal brokers: one hears every request from one peer, the other from a new one each."""

    def __init__(self, build_house: BuildHouse) -> None:
        self.laned, self.plain = (
            build_house(clock=StillClock(), entropy=SimEntropy("twins")) for _ in range(2)
        )
        self._peer = _peer()
        self.laned.peer = self._peer
        self.taken = 0
        for house in (self.laned, self.plain):
            for name in TOPICS:
                _create(house, name)

    def both(self, change: Callable[[House], Any]) -> None:
        for house in (self.laned, self.plain):
            change(house)

    def frame(self, version: int, client: str | None, *sent: Any, **options: Any) -> bytes:
        """A request, by whatever client."""
        frame = produce_frame(self.laned, version, *sent, **options)
        header = parse_request_header(frame)
        head = request_header(header.api_key, version, header.correlation_id, client)
        return head + frame[header.body_at :]

    def compare(self, frame: bytes) -> None:
        self.taken += _in_lane(self.laned, frame)
        laned = self.laned.run(_outcome(self.laned, frame, self._peer))
        assert laned == self.plain.run(_outcome(self.plain, frame, _peer()))

    def compare_logs(self) -> None:
        for name in self.laned.replicas.by_name:
            ends = [
                [each.log.end_offset for each in house.replicas.by_name[name].partitions.values()]
                for house in (self.laned, self.plain)
            ]
            assert ends[0] == ends[1]


async def _outcome(house: House, frame: bytes, peer: Peer) -> bytes | str | None:
    """Nothing but an answer, no answer, or a DecodeError is an outcome."""
    try:
        return await answer_of(house, frame, peer)
    except DecodeError as error:
        return str(error)


TOPICS = ("plain", "keyed", "squeezed", "stamped")
_SETTINGS = {
    "plain": {},
    "keyed": {"cleanup.policy": "compact"},
    "squeezed": {"compression.type": "gzip"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}


def _create(house: House, name: str) -> None:
    (result,) = house.run(house.cluster.create_topics([NewTopic(name, 2, 1, (), _SETTINGS[name])]))
    assert result.topic is not None


def _recreate(house: House, name: str) -> None:
    house.run(house.cluster.delete_topics([name]))
    _create(house, name)


_BATCHES = [
    *PAYLOADS.values(),
    ONE,
    batch(b"v", key=b"k"),
    batch(b"v" * 200, codec=CODECS_BY_NAME["gzip"]),
    batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0),
    batch(b"v", producer_id=5, producer_epoch=0, base_sequence=1),
    ONE[:-1],
    ONE + b"\0",
    ONE[:17] + b"\0\0\0\0" + ONE[21:],
    b"",
    None,
]

_requests = st.tuples(
    st.sampled_from(list(PRODUCE_VERSIONS)),
    st.sampled_from([None, "", "client", "c" * 200]),
    st.sampled_from([*TOPICS, "plain", "plain", "nowhere"]),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([-1, -1, 1, 0, 3]),
)
_repeats = st.lists(st.sampled_from(_BATCHES), min_size=1, max_size=4)
_damage = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.just("cut"), st.integers(0, 1 << 15)),
    st.tuples(st.just("flip"), st.integers(0, (1 << 18) - 1)),
    st.tuples(st.just("more"), st.binary(min_size=1, max_size=6)),
)
_changes = st.sampled_from(["recreate", "grow", "small", "large"])
_steps = st.lists(
    st.one_of(
        st.tuples(_requests, _repeats, _damage),
        st.tuples(_requests, _repeats, _damage),
        _changes,
    ),
    min_size=1,
    max_size=8,
)


def _damaged(frame: bytes, damage: Any) -> bytes:
    if damage is None:
        return frame
    kind, what = damage
    if kind == "cut":
        return frame[: 8 + what % (len(frame) - 7)]
    if kind == "more":
        return frame + bytes(what)
    # Half of the flips go to the part that the lane compares.
    bit = what % (8 * (min(len(frame), 120) if what & 1 else len(frame)))
    return frame[: bit // 8] + bytes([frame[bit // 8] ^ 1 << bit % 8]) + frame[bit // 8 + 1 :]


def _change(twins: Twins, change: str) -> None:
    if change == "recreate":
        twins.both(lambda house: _recreate(house, "plain"))
    elif change == "grow":
        count = len(twins.laned.replicas.by_name["plain"].partitions) + 1
        twins.both(
            lambda house: house.run(
                house.cluster.create_partitions([NewPartitions("plain", count)])
            )
        )
    else:
        limit = "200" if change == "small" else "1048588"
        twins.both(lambda house: _configure(house, "plain", "max.message.bytes", limit))


def test_the_lane_is_not_to_be_seen(build_house: BuildHouse) -> None:
    twins = Twins(build_house)

    @settings(
        max_examples=150,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(_steps)
    def check(steps: list[Any]) -> None:
        for step in steps:
            if isinstance(step, str):
                _change(twins, step)
                continue
            (version, client, topic, index, acks), repeats, damage = step
            for records in repeats:
                frame = twins.frame(version, client, (topic, index, records), acks=acks)
                twins.compare(frame)
            twins.compare(_damaged(frame, damage))
        twins.compare_logs()

    check()
    assert twins.taken > 50, "hardly any request was in its lane"


@pytest.mark.parametrize("version", LANE_VERSIONS)
def test_every_cut_and_every_length(build_house: BuildHouse, version: int) -> None:
    twins = Twins(build_house)
    frame = twins.frame(version, "client", ("plain", 0, ONE))
    twins.compare(frame)
    end = len(frame) - len(ONE) - 4
    for cut in range(8, len(frame)):
        twins.compare(frame[:cut])
    for at in range(end - 4, end + 8):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            twins.compare(frame[:at] + bytes([value]) + frame[at + 1 :])
    for size in SIZES:
        twins.compare(twins.frame(version, "client", ("plain", 0, PAYLOADS[size])))
    assert twins.taken >= len(SIZES)
    twins.compare_logs()


@pytest.mark.parametrize("version", [v for v in LANE_VERSIONS if v >= 9])
def test_a_length_may_be_written_longer_than_it_needs(
    build_house: BuildHouse, version: int
) -> None:
    twins = Twins(build_house)
    frame = twins.frame(version, "client", ("plain", 0, ONE))
    twins.compare(frame)
    at = len(frame) - 3 - len(ONE) - 1
    assert frame[at] == len(ONE) + 1
    twins.compare(frame[:at] + bytes([frame[at] | 0x80, 0x80, 0x00]) + frame[at + 1 :])
    assert twins.laned.partition("plain").log.end_offset == 2
