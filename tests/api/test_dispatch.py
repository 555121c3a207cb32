"""From frame to answer: what is not understood ends the connection, whatever else stays ours."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.conftest import KEYS, build
from tests.api.hot_path import batch, fetch_frame, produce_frame, wanted

from barnabas.api.dispatch import Dispatcher
from barnabas.api.table import SERVED
from barnabas.model import limits
from barnabas.model.errors import BarnabasError, DecodeError
from barnabas.ports.coordination import CoordinationError, Op
from barnabas.ports.exchange import Frames, Later
from barnabas.wire.apis import APIS
from barnabas.wire.headers import request_header
from barnabas.wire.messages import decode_request, decode_response, encode_request, version_type
from barnabas.wire.primitives import INT32, uvarint
from barnabas.world.embedded import EmbeddedCoordination

if TYPE_CHECKING:
    from tests.api.conftest import House

_SPOKEN = [
    (key, version)
    for key in SERVED
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


# --- what is not understood ---------------------------------------------------------------------


async def _dispatch(house: House, frame: bytes) -> object:
    """The answer, or whatever comes instead. A Fetch that would wait is given up."""
    try:
        reply = house.dispatch_once(house.peer, frame)
        if not isinstance(reply, Later):
            return reply
        if reply.only_waits and not isinstance(reply.coroutine, asyncio.Future):
            reply.coroutine.close()
            return None
        return await asyncio.wait_for(reply.coroutine, 30)
    except DecodeError as error:
        return error


@pytest.mark.parametrize("key", [-1, 4, 5, 17, 999, 32767, -32768])
def test_an_api_that_is_not_served(house: House, key: int) -> None:
    for version in (-1, 0, 1, 32767):
        frame = struct.pack(">hhih", key, version, 1, -1) + bytes(20)
        with pytest.raises(DecodeError):
            house.send(frame)


@pytest.mark.parametrize("key", [key for key in SERVED if key != KEYS["api_versions"]])
def test_a_version_that_is_not_spoken(house: House, key: int) -> None:
    for version in (-1, APIS[key].min_version - 1, APIS[key].max_version + 1, 32767):
        frame = struct.pack(">hhih", key, version, 1, -1) + bytes(20)
        with pytest.raises(DecodeError):
            house.send(frame)


@pytest.mark.parametrize("version", [-1, 5, 99, 32767, -32768])
def test_a_client_of_the_future_is_told_what_is_spoken(house: House, version: int) -> None:
    frame = struct.pack(">hhi", KEYS["api_versions"], version, 77) + b"\xff" * 9
    answer = house.send(frame)
    assert answer[:4] == (77).to_bytes(4, "big")
    told = house.decode(KEYS["api_versions"], 0, answer)
    assert told["error_code"] == "unsupported_version"
    assert {each["api_key"] for each in told["api_keys"]} >= {KEYS["api_versions"]}


def test_bytes_of_a_stranger_are_answered_or_refused(house: House) -> None:
    house.topic("t", 2)
    outcomes: set[type] = set()

    @settings(
        max_examples=300,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        st.sampled_from(_SPOKEN),
        st.sampled_from([None, "", "client"]),
        st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(_LIKELY)).map(b"".join)),
    )
    def check(spoken: tuple[int, int], client: str | None, body: bytes) -> None:
        frame = request_header(*spoken, 5, client) + body
        outcomes.add(type(house.run(_dispatch(house, frame))))

    check()
    assert {DecodeError, list} <= outcomes


_LIKELY = [
    b"\0",
    b"\1",
    b"\2",
    b"\2t",
    b"\0\1t",
    b"\0\0\0\0",
    b"\0\0\0\1",
    b"\0\0",
    b"\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x08",
    bytes(8),
    bytes(16),
]
"""What counts, lengths and names are made of."""


def test_any_frame_at_all(house: House) -> None:
    @settings(
        max_examples=200,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(st.binary(min_size=limits.FRAME_BYTES_MIN, max_size=80))
    def check(frame: bytes) -> None:
        house.run(_dispatch(house, frame))

    check()


def test_every_cut_of_every_request(house: House) -> None:
    house.topic("t")
    for key, version in _SPOKEN:
        entity = version_type(key, version, "request")
        frame = request_header(key, version, 1, "c") + encode_request(
            key, version, build(entity, {})
        )
        for cut in range(limits.FRAME_BYTES_MIN, len(frame)):
            outcome = house.run(_dispatch(house, frame[:cut]))
            assert isinstance(outcome, DecodeError), (SERVED[key], version, cut)


def test_nothing_is_kept_of_a_frame(house: House) -> None:
    """The memory of a frame is the next one's: whoever still looked into it would see that."""
    house.topic("t", 2)
    house.topic("compacted", cleanup_policy="compact")
    dispatch = Dispatcher(house.services)

    async def ask(frame: bytes) -> Frames | None:
        memory = bytearray(frame)
        view = memoryview(memory)
        reply = dispatch(house.peer, view)
        view.release()
        memory.clear()  # Fails as long as there is a view of it.
        return await reply.coroutine if isinstance(reply, Later) else reply

    frames = [
        request_header(key, version, 1, "c")
        + encode_request(key, version, build(version_type(key, version, "request"), {}))
        for key, version in _SPOKEN
    ]
    keyed = batch(b"v", key=b"k")
    for_each = ("t", "t", "compacted", "compacted")
    frames += [produce_frame(house, 12, (name, 0, keyed)) for name in for_each]
    frames.append(produce_frame(house, 12, *((t, 0, batch(b"v")) for t in ("t", "compacted"))))
    frames.append(fetch_frame(house, 12, [("t", [wanted(1)])], max_wait_ms=1))
    for frame in frames:
        house.run(ask(frame))
    assert house.partition("t").log.end_offset == 3
    assert house.partition("compacted").log.end_offset == 2


# --- what one request may cost ------------------------------------------------------------------


def _metadata_request(version: int, topics: int) -> bytes:
    if version < 9:
        return INT32.pack(topics) + b"\0\1t" * topics
    return uvarint(topics + 1) + (bytes(16) + b"\2t\0") * topics + b"\1\0\0"


@pytest.mark.parametrize("version", [1, 12])
def test_a_request_has_only_so_many_elements(version: int) -> None:
    most = limits.MESSAGE_ELEMENTS_MAX
    allowed = decode_request(KEYS["metadata"], version, _metadata_request(version, most))
    assert len(allowed.topics) == most
    with pytest.raises(DecodeError, match="elements"):
        decode_request(KEYS["metadata"], version, _metadata_request(version, most + 1))


def test_the_elements_of_all_arrays_count() -> None:
    def body(topics: int, partitions: int) -> bytes:
        each = b"\2t" + uvarint(partitions + 1) + bytes(4) * partitions + b"\0"
        return uvarint(topics + 1) + each * topics + b"\0"

    key, most = KEYS["describe_producers"], limits.MESSAGE_ELEMENTS_MAX
    assert decode_request(key, 0, body(10, most // 10 - 1))
    with pytest.raises(DecodeError, match="elements"):
        decode_request(key, 0, body(10, most // 10))


def test_answers_may_be_larger() -> None:
    count = limits.MESSAGE_ELEMENTS_MAX + 1
    body = b"\0\0" + INT32.pack(count) + bytes(6) * count
    assert len(decode_response(KEYS["api_versions"], 0, body).api_keys) == count


def test_a_request_creates_only_so_many_topics(house: House) -> None:
    names = [f"t{n}" for n in range(limits.METADATA_CREATES_TOPICS_MAX + 5)]
    answer = house.ask(
        "metadata",
        12,
        topics=[{"name": name, "topic_id": None} for name in names],
        allow_auto_topic_creation=True,
    )
    errors = [topic["error_code"] for topic in answer["topics"]]
    assert errors.count("none") == limits.METADATA_CREATES_TOPICS_MAX
    assert errors.count("unknown_topic_or_partition") == 5


# --- a store that fails -------------------------------------------------------------------------


class UnwillingStore(EmbeddedCoordination):
    """A store that can be made to refuse, or to find its disk full."""

    problem: Exception | None = None

    async def commit(self, *operations: Op) -> None:
        if self.problem is not None:
            raise self.problem
        await super().commit(*operations)


_RETENTION = {"name": "retention.ms", "value": "5"}
_COMMITTING: dict[str, tuple[int, dict[str, Any], str]] = {
    "create_topics": (
        7,
        {"topics": [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in "ab"]},
        "topics",
    ),
    "delete_topics": (
        6,
        {"topics": [{"name": n, "topic_id": None} for n in "tu"]},
        "responses",
    ),
    "create_partitions": (
        3,
        {"topics": [{"name": n, "count": 3, "assignments": None} for n in "tu"]},
        "results",
    ),
    "alter_configs": (
        2,
        {
            "resources": [
                {"resource_type": 2, "resource_name": n, "configs": [_RETENTION]} for n in "tu"
            ]
        },
        "responses",
    ),
    "incremental_alter_configs": (
        1,
        {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": n,
                    "configs": [{**_RETENTION, "config_operation": 0}],
                }
                for n in "tu"
            ]
        },
        "responses",
    ),
    "metadata": (
        12,
        {
            "topics": [{"name": n, "topic_id": None} for n in "ab"],
            "allow_auto_topic_creation": True,
        },
        "topics",
    ),
}
"""Version, a request about two things, and where the answer speaks of each."""

_PROBLEMS = pytest.mark.parametrize(
    ("problem", "error"),
    [
        (CoordinationError("no"), "unknown_server_error"),
        (BarnabasError("The metadata store is full."), "kafka_storage_error"),
    ],
)


@_PROBLEMS
@pytest.mark.parametrize("api", _COMMITTING)
def test_a_change_that_is_not_stored_is_refused_item_by_item(
    build_house: Callable[..., House], api: str, problem: Exception, error: str
) -> None:
    store = UnwillingStore(":memory:")
    house = build_house(coordination=store)
    for name in "tu":
        house.topic(name)
    version, body, items = _COMMITTING[api]
    store.problem = problem
    refused = house.ask(api, version, **body)[items]
    assert [each["error_code"] for each in refused] == [error] * 2
    assert all(str(problem) in each.get("error_message", str(problem)) for each in refused)
    names = [each.get("name") or each["resource_name"] for each in refused]
    assert names in (["a", "b"], ["t", "u"])
    # Nothing of it was done, and it can be tried again.
    assert sorted(house.cluster.image.topics) == ["t", "u"]
    store.problem = None
    done = house.ask(api, version, **body)[items]
    assert [each["error_code"] for each in done] == ["none"] * 2


def test_topics_that_are_not_deleted_are_named_by_their_ids(
    build_house: Callable[..., House],
) -> None:
    store = UnwillingStore(":memory:")
    house = build_house(coordination=store)
    topic_id = house.topic("t")
    store.problem = CoordinationError("no")
    topics = [{"name": None, "topic_id": topic_id}]
    (refused,) = house.ask("delete_topics", 6, topics=topics)["responses"]
    assert (refused["topic_id"], refused["error_code"]) == (topic_id, "unknown_server_error")


@_PROBLEMS
def test_a_producer_id_that_is_not_stored_is_not_given_out(
    build_house: Callable[..., House], problem: Exception, error: str
) -> None:
    store = UnwillingStore(":memory:")
    house = build_house(coordination=store)
    body = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    store.problem = problem
    refused = house.ask("init_producer_id", 5, **body)
    assert (refused["error_code"], refused["producer_id"]) == (error, -1)
    store.problem = None
    assert house.ask("init_producer_id", 5, **body)["error_code"] == "none"
