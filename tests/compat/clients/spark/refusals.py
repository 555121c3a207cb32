"""What both connectors refuse, each in its own words.

python -m tests.compat.clients.spark.refusals        prints both messages, as a table
"""

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from tests.compat.clients.spark.cases_sink import frame
from tests.compat.clients.spark.harness import FORMATS, OFFICIAL, OURS, Bench, Options
from tests.compat.clients.spark.sessions import both_connectors
from tests.compat.clients.spark.topics import BORN_MS, BROKER, Topics

from barnabas.testing import Broker

Attempt = Callable[[Bench, str], object]


class Refusal(NamedTuple):
    """Something that is not done."""

    name: str
    attempt: Attempt


def _batch(name: str, options: Options) -> Refusal:
    return Refusal(f"batch, {name}", lambda bench, format_name: _read(bench, format_name, options))


def _read(bench: Bench, format_name: str, options: Options) -> object:
    return bench.read(format_name, options).collect()


def _stream(name: str, options: Options) -> Refusal:
    def attempt(bench: Bench, format_name: str) -> object:
        folder = tempfile.mkdtemp(dir=bench.home)
        return bench.stream(format_name, options, folder)

    return Refusal(f"stream, {name}", attempt)


def _sink(
    name: str, schema: str, row: tuple[object, ...], options: Options | None = None
) -> Refusal:
    wishes = {"topic": "plain"} if options is None else options

    def attempt(bench: Bench, format_name: str) -> object:
        bench.write(format_name, frame(bench.spark, schema, [row]), wishes)
        return None

    return Refusal(f"sink, {name}", attempt)


def _without_servers(bench: Bench, format_name: str) -> object:
    return bench.spark.read.format(format_name).option("subscribe", "plain").load().collect()


def _sink_without_servers(bench: Bench, format_name: str) -> object:
    df = frame(bench.spark, "value string", [("v",)])
    df.write.format(format_name).option("topic", "plain").mode("append").save()
    return None


def _data_loss(bench: Bench, format_name: str) -> object:
    options = {"subscribe": f"lost-{format_name}", "startingOffsets": "earliest"}
    bench.topics.fill_plain(options["subscribe"], partitions=1, records=20)
    bench.stream(format_name, options, f"lost-{format_name}")
    bench.topics.add_plain(options["subscribe"], range(20, 60), 1)
    bench.topics.delete_records(options["subscribe"], 30)
    return bench.stream(format_name, options, f"lost-{format_name}")


PLAIN: Final = {"subscribe": "plain"}
QUICK: Final = {"kafka.max.block.ms": "3000", "kafka.delivery.timeout.ms": "4000",
                "kafka.request.timeout.ms": "3000"}  # fmt: skip

REFUSALS: Final = (
    Refusal("batch, no bootstrap servers", _without_servers),
    _batch("no topic", {}),
    _batch("two ways to name topics", {"subscribe": "plain", "subscribePattern": "p.*"}),
    _batch("subscribe to nothing", {"subscribe": " , "}),
    _batch("an empty pattern", {"subscribePattern": " "}),
    _batch("a broken pattern", {"subscribePattern": "pl(ain"}),
    _batch("assign without JSON", {"assign": "plain"}),
    _batch("assign, broken JSON", {"assign": '{"plain": 0}'}),
    _batch("an unknown topic", {"subscribe": "nowhere"}),
    _batch("an unknown partition", {"assign": json.dumps({"plain": [7]})}),
    _batch("starting at latest", PLAIN | {"startingOffsets": "latest"}),
    _batch(
        "one partition starting at latest",
        PLAIN | {"startingOffsets": json.dumps({"plain": {"0": -1, "1": 0, "2": 0}})},
    ),
    _batch("ending at earliest", PLAIN | {"endingOffsets": "earliest"}),
    _batch(
        "one partition ending at earliest",
        PLAIN | {"endingOffsets": json.dumps({"plain": {"0": -2, "1": 9, "2": 9}})},
    ),
    _batch("startingOffsets, broken JSON", PLAIN | {"startingOffsets": "{plain"}),
    _batch("startingOffsets, a word", PLAIN | {"startingOffsets": "yesterday"}),
    _batch("startingOffsets miss partitions", PLAIN | {"startingOffsets": '{"plain": {"0": 1}}'}),
    _batch(
        "startingOffsets of another topic", PLAIN | {"startingOffsets": '{"stamped": {"0": 1}}'}
    ),
    _batch("a time that is none", PLAIN | {"startingTimestamp": "noon"}),
    _batch("times, broken JSON", PLAIN | {"startingOffsetsByTimestamp": "{"}),
    _batch("no record at that time", PLAIN | {"startingTimestamp": str(BORN_MS * 2)}),
    _batch(
        "an unknown strategy",
        PLAIN
        | {"startingTimestamp": str(BORN_MS), "startingOffsetsByTimestampStrategy": "nearest"},
    ),
    _batch("minPartitions=0", PLAIN | {"minPartitions": "0"}),
    _batch("minPartitions is no number", PLAIN | {"minPartitions": "many"}),
    _batch("maxRecordsPerPartition=0", PLAIN | {"maxRecordsPerPartition": "0"}),
    _batch("failOnDataLoss=maybe", PLAIN | {"failOnDataLoss": "maybe"}),
    _batch("auto.offset.reset", PLAIN | {"kafka.auto.offset.reset": "earliest"}),
    _batch("a deserializer", PLAIN | {"kafka.value.deserializer": "X"}),
    _batch("enable.auto.commit", PLAIN | {"kafka.enable.auto.commit": "true"}),
    _batch("interceptors", PLAIN | {"kafka.interceptor.classes": "X"}),
    _batch("an unknown isolation level", PLAIN | {"kafka.isolation.level": "read_half"}),
    _batch(
        "from offsets that were deleted",
        {"subscribe": "shortened", "startingOffsets": '{"shortened": {"0": 3}}'},
    ),
    _batch(
        "to offsets that are not there yet",
        {"subscribe": "shortened", "endingOffsets": '{"shortened": {"0": 10000}}',
         "kafkaConsumer.pollTimeoutMs": "3000"},
    ),
    _stream("endingOffsets", PLAIN | {"endingOffsets": "latest"}),
    _stream(
        "endingOffsetsByTimestamp",
        PLAIN | {"endingOffsetsByTimestamp": json.dumps({"plain": {"0": 1, "1": 1, "2": 1}})},
    ),
    _stream("an unknown topic", {"subscribe": "nowhere", "startingOffsets": "earliest"}),
    _stream("maxOffsetsPerTrigger is no number", PLAIN | {"maxOffsetsPerTrigger": "few"}),
    _stream("more at least than at most",
            PLAIN | {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}),
    _stream("maxTriggerDelay is no time",
            PLAIN | {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "soon"}),
    _stream("no record at that time", PLAIN | {"startingTimestamp": str(BORN_MS * 2)}),
    Refusal("stream, records lost", _data_loss),
    Refusal("sink, no bootstrap servers", _sink_without_servers),
    _sink("no value column", "key string", ("k",)),
    _sink("no topic", "value string", ("v",), {}),
    _sink("a null topic", "topic string, value string", (None, "v"), {}),
    _sink("value of another type", "value int", (1,)),
    _sink("key of another type", "key double, value string", (1.0, "v")),
    _sink("headers of another type", "headers map<string, string>, value string", ({}, "v")),
    _sink("partition of another type", "partition string, value string", ("0", "v")),
    _sink("topic of another type", "topic int, value string", (1, "v"), {}),
    _sink("a partition that is not there", "partition int, value string", (99, "v"),
          {"topic": "plain"} | QUICK),
    _sink("a partition below zero", "partition int, value string", (-1, "v")),
    _sink("a header without a name",
          "headers array<struct<key: string, value: binary>>, value string", ([(None, b"")], "v")),
    _sink("a serializer", "value string", ("v",),
          {"topic": "plain", "kafka.value.serializer": "X"}),
    _sink("an unknown codec", "value string", ("v",),
          {"topic": "plain", "kafka.compression.type": "brotli"}),
    _sink("a record larger than the topic takes", "value string", ("x" * 3_000_000,),
          {"topic": "plain", "kafka.max.request.size": "10000000"}),
)  # fmt: skip


def words(bench: Bench, refusal: Refusal, format_name: str) -> str | None:
    """What the connector says; None when it does as told."""
    try:
        refusal.attempt(bench, format_name)
    except (PySparkException, Py4JJavaError) as error:
        return str(error)
    return None


def in_short(text: str) -> str:
    """The sentence within the traces."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if re.search(r"(Error|Exception): \S", line)]
    own = [line for line in said if "barnabas.spark.errors" in line]
    told = own[0] if own else said[-1] if said else next((line for line in lines if line), "")
    return re.sub(r"^.*?(?:Error|Exception): ", "", told)[:300]


def main() -> None:
    """Print the table."""
    home = Path(tempfile.mkdtemp(prefix="refusals-"))
    with Broker(memory=False, config=BROKER) as broker:
        topics = Topics(broker.bootstrap_servers)
        fill(topics)
        bench = Bench(both_connectors(home), topics, home)
        print("| what | official | barnabas |\n|---|---|---|", flush=True)
        for refusal in REFUSALS:
            said = {name: words(bench, refusal, name) for name in FORMATS}
            cells = [
                "does it" if each is None else in_short(each)
                for each in (said[OFFICIAL], said[OURS])
            ]
            print(f"| {refusal.name} | {' | '.join(cells)} |", flush=True)
        bench.spark.stop()


def fill(topics: Topics) -> None:
    """The topics that the attempts name, but for `nowhere`."""
    topics.fill_plain("plain")
    topics.fill_stamped("stamped")
    topics.fill_plain("shortened", partitions=1, records=20)
    topics.delete_records("shortened", 8)


if __name__ == "__main__":
    main()
