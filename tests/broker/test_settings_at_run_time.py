"""Settings that are changed while three brokers run count on each of them at once.

Every key that may be changed has its row here: a new one without a row fails the first tests.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from kio.schema.alter_configs.v2.request import AlterableConfig as FullConfig
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.request import AlterConfigsResource as FullResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8
from tests.broker.trio import NUMBERS, TOPIC, Trio, play

from barnabas.broker.broker import Broker
from barnabas.cluster.configs import AlterOp
from barnabas.cluster.topics import _staying
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.cleaner_keys import CleanerSettings
from barnabas.config.keys import Update
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.model.errors import ErrorCode
from barnabas.net.limits import NetLimits

AT_ONCE_S = 1.0
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
DYNAMIC = {key.name for key in BROKER_KEYS.values() if key.update is not Update.READ_ONLY}
READ_ONLY = BROKER_KEYS.keys() - DYNAMIC


class Row(NamedTuple):
    """A value, and what it makes of whoever obeys the key."""

    value: str
    expected: Any
    found: Callable[[Broker], Any]


def of_log(attribute: str) -> Callable[[Broker], Any]:
    """What the log of the topic's partition goes by."""

    def find(broker: Broker) -> Any:
        partition = broker._replicas.find(TOPIC, 0)
        assert partition is not None
        return getattr(partition.log.config, attribute)

    return find


def _config(broker: Broker) -> BrokerConfig:
    """What housekeeping, scrubbing and handlers ask each time."""
    return broker._cluster.image.config


def _cleaner(broker: Broker) -> CleanerSettings:
    """What compaction goes by."""
    return broker._cleaning._config().cleaner


def _limits(broker: Broker) -> NetLimits:
    """What new connections are held to."""
    return broker._listener._admission.limits


TOPIC_ROWS: Mapping[str, Row] = {
    name: Row(value, expected, of_log(name.replace(".", "_")))
    for name, value, expected in [
        ("cleanup.policy", "compact,delete", {"compact", "delete"}),
        ("compression.gzip.level", "3", 3),
        ("compression.lz4.level", "4", 4),
        ("compression.type", "zstd", "zstd"),
        ("compression.zstd.level", "5", 5),
        ("delete.retention.ms", "6001", 6001),
        ("file.delete.delay.ms", "6002", 6002),
        ("follower.replication.throttled.replicas", "0:2,0:3", ("0:2", "0:3")),
        ("flush.messages", "6003", 6003),
        ("flush.ms", "6004", 6004),
        ("index.interval.bytes", "6005", 6005),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("max.compaction.lag.ms", "6007", 6007),
        ("max.message.bytes", "60008", 60008),
        ("message.timestamp.after.max.ms", "6000009", 6000009),
        ("message.timestamp.before.max.ms", "6000010", 6000010),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("min.compaction.lag.ms", "6006", 6006),
        ("min.insync.replicas", "3", 3),
        ("retention.bytes", "6000011", 6000011),
        ("retention.ms", "60000012", 60000012),
        ("segment.bytes", "6000013", 6000013),
        ("segment.index.bytes", "60014", 60014),
        ("segment.jitter.ms", "6015", 6015),
        ("segment.ms", "6000016", 6000016),
        ("unclean.leader.election.enable", "true", True),
    ]
}
TOPIC_ROWS_WITHOUT_EFFECT = {"internal.segment.bytes"}
"""Kept for tools that set them."""

_SUPPLIERS = {
    key.synonyms[0].name: TOPIC_ROWS[name]
    for name, key in TOPIC_KEYS.items()
    if name in TOPIC_ROWS and key.synonyms
}
BROKER_ROWS: Mapping[str, Row] = {
    **_SUPPLIERS,
    **{
        name: Row(value, expected, found)
        for name, value, expected, found in [
            (
                "cordoned.log.dirs",
                "*",
                True,
                lambda b: (
                    _config(b).node_id not in map(attrgetter("id"), _staying(b._cluster.image))
                ),
            ),
            (
                "follower.replication.throttled.rate",
                "710",
                710,
                lambda b: _config(b).cluster.follower_throttled_rate,
            ),
            (
                "leader.replication.throttled.rate",
                "711",
                711,
                lambda b: _config(b).cluster.leader_throttled_rate,
            ),
            ("log.cleaner.backoff.ms", "701", 701, lambda b: _cleaner(b).backoff_ms),
            (
                "log.cleaner.dedupe.buffer.size",
                "702",
                702,
                lambda b: _cleaner(b).dedupe_buffer_size,
            ),
            (
                "log.cleaner.io.buffer.load.factor",
                ".5",
                0.5,
                lambda b: _cleaner(b).io_buffer_load_factor,
            ),
            ("log.cleaner.io.buffer.size", "703", 703, lambda b: _cleaner(b).io_buffer_size),
            (
                "log.cleaner.io.max.bytes.per.second",
                "704",
                704.0,
                lambda b: _cleaner(b).io_max_bytes_per_second,
            ),
            ("log.scrub.interval.ms", "7050", 7.05, lambda b: b._scrubbing._interval_s()),
            (
                "log.scrub.max.bytes.per.second",
                "706",
                706,
                lambda b: _config(b).scrub_max_bytes_per_second,
            ),
            ("max.connections", "707", 707, lambda b: _limits(b).connections_max),
            ("max.connections.per.ip", "78", 78, lambda b: _limits(b).connections_per_address_max),
            (
                "producer.id.expiration.ms",
                "7009",
                7009,
                lambda b: _config(b).producer_id_expiration_ms,
            ),
            (
                "transaction.partition.verification.enable",
                "false",
                False,
                lambda b: _config(b).transactions.verification,
            ),
        ]
    },
}


async def alter(
    trio: Trio, kind: int, name: str, edits: Iterable[tuple[str, AlterOp, str | None]]
) -> tuple[ErrorCode, str]:
    """Ask a broker that is not the controller."""
    configs = tuple(
        AlterableConfig(name=key, config_operation=i8(op), value=value) for key, op, value in edits
    )
    resource = AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    asked = next(n for n, each in trio.running.items() if not each.broker._cluster.is_controller)
    client = await trio.client(asked)
    (result,) = (await client.link.call(44, 1, request)).responses
    await client.link.close()
    return result.error_code, result.error_message or ""


async def set_all(trio: Trio, kind: int, name: str, rows: Mapping[str, Row]) -> None:
    edits = [(key, AlterOp.SET, row.value) for key, row in rows.items()]
    assert await alter(trio, kind, name, edits) == (ErrorCode.none, "")


async def unset_all(trio: Trio, kind: int, name: str, rows: Iterable[str]) -> None:
    edits = [(key, AlterOp.DELETE, None) for key in rows]
    assert await alter(trio, kind, name, edits) == (ErrorCode.none, "")


def stored(trio: Trio, path: str) -> dict[str, str]:
    node = trio.ensemble.get(path)
    assert node is not None
    settings: dict[str, str] = json.loads(node.data)["config"]
    return settings


def found(trio: Trio, number: int, rows: Mapping[str, Row]) -> dict[str, Any]:
    broker = trio.running[number].broker
    return {key: row.found(broker) for key, row in rows.items()}


async def until_all(trio: Trio, numbers: Iterable[int], expected: Mapping[str, Any]) -> None:
    rows = {key: BROKER_ROWS.get(key) or TOPIC_ROWS[key] for key in expected}
    await asyncio.sleep(AT_ONCE_S)
    for number in numbers:
        assert found(trio, number, rows) == expected, number


def wanted(rows: Mapping[str, Row]) -> dict[str, Any]:
    return {key: row.expected for key, row in rows.items()}


def test_every_topic_key_counts_at_once_on_every_replica() -> None:
    honoured = {name for name, key in TOPIC_KEYS.items() if key.refusal is None}
    assert TOPIC_ROWS.keys() | TOPIC_ROWS_WITHOUT_EFFECT == honoured

    async def scene(trio: Trio) -> None:
        before = found(trio, 1, TOPIC_ROWS)
        assert not {key for key, row in TOPIC_ROWS.items() if before[key] == row.expected}
        await set_all(trio, TOPIC_RESOURCE, TOPIC, TOPIC_ROWS)
        await until_all(trio, NUMBERS, wanted(TOPIC_ROWS))
        assert stored(trio, f"/config/topics/{TOPIC}") == {
            key: row.value for key, row in TOPIC_ROWS.items()
        }
        others = TOPIC_ROWS.keys() - {"min.insync.replicas"}
        await unset_all(trio, TOPIC_RESOURCE, TOPIC, others)
        await until_all(trio, NUMBERS, {key: before[key] for key in others})
        assert stored(trio, f"/config/topics/{TOPIC}") == {"min.insync.replicas": "3"}

    play(scene)


def test_every_broker_key_counts_at_once_on_every_broker_or_on_one() -> None:
    refused = {name for name in DYNAMIC if BROKER_KEYS[name].refusal}
    assert BROKER_ROWS.keys() == DYNAMIC - refused

    async def scene(trio: Trio) -> None:
        await unset_all(trio, TOPIC_RESOURCE, TOPIC, ["min.insync.replicas"])
        await asyncio.sleep(AT_ONCE_S)
        before = found(trio, 1, BROKER_ROWS)
        assert not {key for key, row in BROKER_ROWS.items() if before[key] == row.expected}
        for_all = {
            key: row
            for key, row in BROKER_ROWS.items()
            if BROKER_KEYS[key].update is Update.CLUSTER_WIDE
        }
        await set_all(trio, BROKER_RESOURCE, "", for_all)
        await until_all(trio, NUMBERS, wanted(for_all))
        values = {key: row.value for key, row in for_all.items()}
        assert stored(trio, "/config/brokers/<default>") == values
        await unset_all(trio, BROKER_RESOURCE, "", for_all)
        await until_all(trio, NUMBERS, before)
        await set_all(trio, BROKER_RESOURCE, "2", BROKER_ROWS)
        await until_all(trio, [2], wanted(BROKER_ROWS))
        await until_all(trio, [1, 3], before)
        assert stored(trio, "/config/brokers/2") == {
            key: row.value for key, row in BROKER_ROWS.items()
        }
        # What one broker was told outlives it, and beats what all are told.
        await trio.stop(2)
        await trio.start(2)
        await set_all(trio, BROKER_RESOURCE, "", {"max.connections": Row("900", None, str)})
        await trio.until_in_sync(*NUMBERS)
        await until_all(trio, [2], wanted(BROKER_ROWS))
        await until_all(trio, [1, 3], before | {"max.connections": 900})

    play(scene)


def test_the_old_request_replaces_all_settings_on_every_broker() -> None:
    async def scene(trio: Trio) -> None:
        for configs in ({"max.connections": "800", "max.connections.per.ip": "80"}, {}):
            resource = FullResource(
                resource_type=i8(BROKER_RESOURCE),
                resource_name="",
                configs=tuple(FullConfig(name=key, value=text) for key, text in configs.items()),
            )
            client = await trio.client(2)
            request = AlterConfigsRequest(resources=(resource,), validate_only=False)
            (result,) = (await client.link.call(33, 2, request)).responses
            await client.link.close()
            assert result.error_code is ErrorCode.none, result.error_message
            assert stored(trio, "/config/brokers/<default>") == configs
            await asyncio.sleep(AT_ONCE_S)
            limits = [each.broker._listener.limits for each in trio.running.values()]
            assert {each.connections_max == 800 for each in limits} == {bool(configs)}
            assert {each.connections_per_address_max == 80 for each in limits} == {bool(configs)}

    play(scene)


def test_chores_that_rest_for_long_hear_of_shorter_rests() -> None:
    async def scene(trio: Trio) -> None:
        cleanings = [each.broker._cleaning for each in trio.running.values()]
        scrubbings = [each.broker._scrubbing for each in trio.running.values()]
        looks = dict.fromkeys(trio.running, 0)

        def counted(number: int, look: Callable[[], Any]) -> Callable[[], Any]:
            async def clean_next() -> bool:
                looks[number] += 1
                return bool(await look())

            return clean_next

        for number, cleaning in zip(trio.running, cleanings, strict=True):
            cleaning.clean_next = counted(number, cleaning.clean_next)  # type: ignore[method-assign]
        await asyncio.sleep(30)
        assert set(looks.values()) == {0}
        assert {each.passes for each in scrubbings} == {0}
        edits = {"log.cleaner.backoff.ms": "500", "log.scrub.interval.ms": "1000"}
        everything = [(key, AlterOp.SET, value) for key, value in edits.items()]
        assert await alter(trio, BROKER_RESOURCE, "", everything) == (ErrorCode.none, "")
        await asyncio.sleep(10)
        assert all(18 <= count <= 21 for count in looks.values()), looks
        assert all(8 <= each.passes <= 11 for each in scrubbings)

    play(scene, log_cleaner_backoff_ms="3600000", log_scrub_interval_ms="3600000")


def test_a_smaller_limit_is_obeyed_by_the_next_request() -> None:
    async def scene(trio: Trio) -> None:
        client = await trio.client(1)
        assert (await client.produce(TOPIC, bytes(5000))).error == 0
        limit = [("message.max.bytes", AlterOp.SET, "4000")]
        assert await alter(trio, BROKER_RESOURCE, "", limit) == (ErrorCode.none, "")
        await asyncio.sleep(AT_ONCE_S)
        refused = await client.produce(TOPIC, bytes(5000))
        assert ErrorCode(refused.error) is ErrorCode.message_too_large
        # The topic's own word counts more.
        own = [("max.message.bytes", AlterOp.SET, "9000")]
        assert await alter(trio, TOPIC_RESOURCE, TOPIC, own) == (ErrorCode.none, "")
        await asyncio.sleep(AT_ONCE_S)
        assert (await client.produce(TOPIC, bytes(5000))).error == 0
        await client.link.close()

    play(scene)


@pytest.mark.parametrize("name", ["", "2"])
def test_what_can_not_be_is_refused_and_changes_nobody(name: str) -> None:
    async def scene(trio: Trio) -> None:
        before = [each.broker._cluster.image.config for each in trio.running.values()]
        refusals = {key: f"Cannot update these configs dynamically: [{key}]" for key in READ_ONLY}
        for key, sentence in refusals.items():
            edit = (key, AlterOp.SET, "1")
            code, message = await alter(trio, BROKER_RESOURCE, name, [edit])
            assert (code, message) == (ErrorCode.invalid_request, sentence)
        for key, value, words in [
            ("no.such.key", "1", "Unknown broker config name: no.such.key"),
            ("max.connections", "many", "Invalid value many for configuration max.connections"),
            ("max.connections", "-1", "Value must be at least 0"),
            ("log.retention.ms", "0", "Value must be unlimited (-1) or at least 1"),
            ("compression.type", "rar", "String must be one of"),
        ]:
            good = ("log.segment.bytes", AlterOp.SET, "2000000")
            edits = [good, (key, AlterOp.SET, value)]
            code, message = await alter(trio, BROKER_RESOURCE, name, edits)
            assert code is ErrorCode.invalid_request
            assert words in message
        await asyncio.sleep(AT_ONCE_S)
        assert before == [each.broker._cluster.image.config for each in trio.running.values()]
        assert trio.ensemble.get(f"/config/brokers/{name or '<default>'}") is None

    play(scene)
