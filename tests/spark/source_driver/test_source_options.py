"""Options mean what they mean to Spark's Kafka connector, and mistakes are said clearly."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.source.options import SourceOptions, parse, schema_of
from barnabas.spark.source.starting import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Everywhere,
)

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
A0, A1 = Place("a", 0), Place("a", 1)


def batch(**options: str) -> SourceOptions:
    return parse(BASE | {"subscribe": "a"} | _dotted(options), streaming=False)


def stream(**options: str) -> SourceOptions:
    return parse(BASE | {"subscribe": "a"} | _dotted(options), streaming=True)


def _dotted(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items()}


def test_what_is_meant_when_nothing_is_said() -> None:
    assert stream().start == Everywhere(LATEST)
    assert batch().start == Everywhere(EARLIEST)
    assert batch().end == Everywhere(LATEST)
    said_nothing = stream()
    assert said_nothing.committed
    assert said_nothing.fail_on_data_loss
    assert said_nothing.group is None
    assert not said_nothing.include_headers
    assert said_nothing.task_bytes == 64 * 1024 * 1024
    assert said_nothing.poll_timeout_s == 120.0
    assert said_nothing.trigger_delay_max_s == 900.0
    assert pickle.loads(pickle.dumps(said_nothing)) == said_nothing
    assert hash(said_nothing) == hash(stream())


def test_every_option_is_taken() -> None:
    options = parse(
        BASE
        | {
            "subscribePattern": " ^a-.* ",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "100",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "2m",
            "maxBytesPerTrigger": "1g",
            "minPartitions": "7",
            "maxRecordsPerPartition": "9",
            "bytesPerTask": "1m",
            "failOnDataLoss": "FALSE",
            "includeHeaders": "True",
            "groupIdPrefix": "ignored",
            "kafkaConsumer.pollTimeoutMs": "5000",
            "fetchOffset.numRetries": "4",
            "fetchOffset.retryIntervalMs": "20",
            "partition.metadata.cache.ttl.ms": "700",
            "kafka.group.id": "shown",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.fetch.max.bytes": "1048576",
            "kafka.session.timeout.ms": "1",
            "pushdown": "true",
        },
        streaming=True,
    )
    assert options.subscription.pattern == "^a-.*"
    assert (options.offsets_max, options.offsets_min) == (100, 10)
    assert (options.trigger_delay_max_s, options.bytes_max) == (120.0, 1024**3)
    assert (options.tasks_min, options.task_offsets_max) == (7, 9)
    assert (options.task_bytes, options.fetch_bytes) == (1024**2, 1024**2)
    assert not options.fail_on_data_loss
    assert not options.committed
    assert options.include_headers
    assert options.pushdown
    assert options.group == "shown"
    assert (options.poll_timeout_s, options.offset_attempts) == (5.0, 4)
    assert (options.offset_attempt_interval_s, options.partitions_cache_s) == (0.02, 0.7)


def test_names_of_options_in_any_case() -> None:
    assert parse(BASE | {"SUBSCRIBE": " b , a,,b"}, streaming=True).subscription.topics == (
        "b",
        "a",
    )


def test_assign() -> None:
    options = parse(BASE | {"assign": '{"b": [0], "a": [1, 0, 1]}'}, streaming=True)
    assert options.subscription.assigned == (A0, A1, Place("b", 0))


def test_where_to_start_and_to_end() -> None:
    offsets = '{"a": {"0": 23, "1": -1}}'
    assert stream(startingOffsets=" Earliest ").start == Everywhere(EARLIEST)
    assert stream(startingOffsets=offsets).start == AtOffsets(((A0, 23), (A1, -1)))
    times = '{"a": {"0": 1000, "1": 2000}}'
    assert stream(startingOffsetsByTimestamp=times).start == AtTimes(((A0, 1000), (A1, 2000)))
    assert batch(endingOffsets=offsets).end == AtOffsets(((A0, 23), (A1, -1)))


def test_one_time_counts_before_times_and_times_before_offsets() -> None:
    times = '{"a": {"0": 1000}}'
    both = stream(startingOffsetsByTimestamp=times, startingOffsets="earliest")
    assert both.start == AtTimes(((A0, 1000),))
    three = stream(
        startingTimestamp="5", startingOffsetsByTimestamp=times, startingOffsets="earliest"
    )
    assert three.start == AtTime(5)
    assert batch(endingTimestamp="9", endingOffsets="latest").end == AtTime(9)


def test_what_to_do_where_nothing_is_as_young() -> None:
    assert not stream(startingTimestamp="5").late_start
    assert stream(startingTimestamp="5", startingOffsetsByTimestampStrategy="LATEST").late_start


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Give one of the options subscribe"),
        ({"subscribe": "a", "assign": "{}"}, "Give only one of"),
        ({"subscribe": " , "}, "name a topic"),
        ({"subscribePattern": " "}, "subscribePattern is empty"),
        ({"subscribePattern": "a["}, "which is not understood"),
        ({"subscribePattern": "[a-z&&[^b]]"}, "Java's own"),
        ({"subscribePattern": r"\p{Alpha}+"}, "Java's own"),
        ({"assign": "a"}, "expected JSON such as"),
        ({"assign": "{}"}, "names no partition"),
        ({"assign": '{"a": [-1]}'}, "expected JSON such as"),
        ({"assign": '{"a": 0}'}, "expected JSON such as"),
        ({"subscribe": "a", "startingOffsets": "newest"}, "startingOffsets is 'newest'"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, "-1 is the end of the log"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"x": 1}}'}, "A partition of a"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": 1, "0": 2}}'}, "expected JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": 1, "00": 2}}'}, "expected JSON"),
        ({"subscribe": "a", "startingTimestamp": "-1"}, "startingTimestamp is '-1'"),
        ({"subscribe": "a", "startingTimestamp": "1_0"}, "startingTimestamp is '1_0'"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "x"}, "error or latest"),
        ({"subscribe": "a", "failOnDataLoss": "yes"}, "true or false"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "from 1 to"),
        ({"subscribe": "a", "minPartitions": "-4"}, "minPartitions"),
        ({"subscribe": "a", "bytesPerTask": "64x"}, "such as 64m"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, "such as 15m"),
        ({"subscribe": "a", "partition.metadata.cache.ttl.ms": "0"}, "or -1"),
        ({"subscribe": "a", "columns": "key,colour"}, "'colour'"),
        ({"subscribe": "a", "columns": " "}, "choose of key"),
        ({"subscribe": "a", "kafka.isolation.level": "none"}, "read_uncommitted"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"subscribe": "a", "kafka.key.deserializer": "x"}, "cast the column"),
        ({"subscribe": "a", "kafka.value.deserializer": "x"}, "cast the column"),
        ({"subscribe": "a", "kafka.enable.auto.commit": "true"}, "kafka.group.id"),
        ({"subscribe": "a", "kafka.interceptor.classes": "x"}, "not supported"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "a", "maxOffsetPerTrigger": "1"}, "did you mean maxOffsetsPerTrigger"),
        ({"subscribe": "a", "group.id": "g"}, "did you mean kafka.group.id"),
        ({"subscribe": "a", "kafka.isolation.levels": "g"}, "did you mean kafka.isolation.level"),
    ],
)
def test_mistakes_are_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(SparkJobError) as problem:
        parse(BASE | options, streaming=True)
    assert said in str(problem.value)


def test_options_of_the_other_kind_of_query() -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(SparkJobError, match="availableNow"):
            stream(**{name: "1"})
    with pytest.raises(SparkJobError, match="minOffsetsPerTrigger is 5"):
        stream(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4")


def test_ignored_in_a_batch_but_said(caplog: pytest.LogCaptureFixture) -> None:
    assert batch(maxOffsetsPerTrigger="10").offsets_max == 10
    assert "maxOffsetsPerTrigger is ignored" in caplog.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "can not be latest in a batch query.* leave it out"),
        ({"endingOffsets": "earliest"}, "can not be earliest"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "can not be -1 for a-0 .* -2 for the earliest"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "can not be -2 for a-0 .* -1 for the latest"),
        (
            {"startingOffsets": '{"a": {"0": 1}}', "endingOffsets": '{"a": {"1": 1}}'},
            "must name the same partitions",
        ),
        (
            {"startingOffsets": '{"a": {"0": 9}}', "endingOffsets": '{"a": {"0": 8}}'},
            "is 9 for a-0, after endingOffsets",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"a": {"0": 9}}',
                "endingOffsetsByTimestamp": '{"a": {"0": 8}}',
            },
            "after endingOffsetsByTimestamp",
        ),
    ],
)
def test_ranges_that_can_not_be(options: dict[str, str], said: str) -> None:
    with pytest.raises(SparkJobError, match=said):
        batch(**options)


def test_an_end_that_is_not_known_yet_is_after_every_start() -> None:
    options = batch(startingOffsets='{"a": {"0": 9}}', endingOffsets='{"a": {"0": -1}}')
    assert options.end == AtOffsets(((A0, -1),))


def test_the_schema_is_the_connectors() -> None:
    fields = "key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    fields += "timestamp:timestamp,timestampType:int"
    assert schema_of(batch()).simpleString() == f"struct<{fields}>"
    schema = schema_of(batch(includeHeaders="true"))
    headers = "headers:array<struct<key:string,value:binary>>"
    assert schema.simpleString() == f"struct<{fields},{headers}>"
    assert '"nullable":false' not in schema.json()
    assert '"containsNull":false' not in schema.json()


def test_columns_are_chosen() -> None:
    options = batch(columns="offset, VALUE,timestamptype", includeHeaders="true")
    assert options.columns == ("offset", "value", "timestampType")
    assert not options.include_headers
    chosen = "struct<offset:bigint,value:binary,timestampType:int>"
    assert schema_of(options).simpleString() == chosen
    assert batch(columns="headers").include_headers


TEXTS = st.text(max_size=40) | st.sampled_from(["1", "true", "earliest", "{", '{"a": {"0": 1}}'])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
).map(json.dumps)
NAMES = st.sampled_from(
    [
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "endingOffsets",
        "endingOffsetsByTimestamp",
        "failOnDataLoss",
        "maxOffsetsPerTrigger",
        "maxTriggerDelay",
        "bytesPerTask",
        "columns",
        "kafka.bootstrap.servers",
        "kafka.isolation.level",
        "kafkaConsumer.pollTimeoutMs",
    ]
)


@given(st.dictionaries(NAMES | st.text(max_size=12), TEXTS | JSONS), st.booleans())
@example({"subscribe": "a", "startingOffsets": "[" * 100_000}, True)
@example({"subscribe": "a", "startingOffsets": '{"a": {"0": ' + "9" * 5000 + "}}"}, True)
@example({"subscribePattern": "(" * 5000}, True)
@example({"subscribePattern": "a{99999999999999999999}"}, True)
def test_nothing_but_a_sentence_comes_of_nonsense(options: dict[str, str], streaming: bool) -> None:
    given_: dict[str, Any] = BASE | options
    try:
        parse(given_, streaming=streaming)
    except SparkJobError as problem:
        said = str(problem)
    else:
        said = "nothing to complain of"
    assert said
