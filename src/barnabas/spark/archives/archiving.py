"""A topic into an archive: a streaming query whose every batch is one commit, once.

Exactly once, whatever is killed: what a batch reads is in the query's checkpoint before it runs;
its tasks write files that nobody sees; one commit makes all of them count and notes the batch's
number. A batch that Spark runs again is in already, or is done anew.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.spark.archives.compaction import MANY, compact, vacuum
from barnabas.spark.archives.connecting import Connecting
from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.covering import batch_ranges, cover
from barnabas.spark.archives.generations import Generation, current
from barnabas.spark.archives.layout import COLUMNS, ArchiveError
from barnabas.spark.archives.opening import (
    TopicNow,
    check_archive,
    gaps_of,
    locked,
    made_again,
    make_folder,
    open_archive,
    topic_id,
)
from barnabas.spark.archives.parquet import CODECS
from barnabas.spark.archives.placing import place, staging_folder
from barnabas.spark.archives.staging import Staging
from barnabas.spark.archives.troubles import told
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.errors import DataLostError
from barnabas.spark.places import Place
from barnabas.spark.supervisor import keep_running
from barnabas.spark.tables import durable
from barnabas.spark.tables.log import TableLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TARGET_SIZE: Final = 128 * 1024 * 1024
_BATCH_TARGETS: Final = 8
"""A batch reads about so many files' worth, so that a topic with much in it shows progress."""
_COMPACTED_TARGETS: Final = 2
"""What is merged between two batches, so that reading is not held up for long."""
_TASK_BYTES_MIN: Final = 1024 * 1024
"""Below that a task costs more than what it does."""
_VACUUM_EVERY_S: Final = 600.0
"""It lists every file of the archive."""


@dataclass(frozen=True)
class Asked(Connecting):
    """What shall be archived, where and how."""

    topic: str
    folder: str
    servers: str
    once: bool = False
    """Up to what is there now, instead of for ever."""
    every_ms: int = 10_000
    start: str = "earliest"
    """Of a new archive: earliest, latest or an offset."""
    target_size: int = TARGET_SIZE
    codec: str = "zstd"
    accept_gap: bool = False
    kafka: Mapping[str, str] = field(default_factory=dict)
    """A client's settings, by Kafka's names."""


class Progress(NamedTuple):
    """What is told after a batch."""

    records: int
    """Of the batch."""
    files: int
    """In the archive."""
    total: int
    """Records in the archive."""
    lag: int
    """Offsets that are committed and not archived yet."""


def archive(
    spark: "SparkSession",
    asked: Asked,
    *,
    tell: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
    restarts: int | None = 3,
) -> Contents:
    """Archive until everything is in (`once`), or until SIGTERM, Ctrl-C or `stop`.

    Returns what the archive holds then. ArchiveError for a folder that is no archive of this
    topic or is used by another process, and for records that were lost before they were archived.
    A query that dies of something else is started again, `restarts` times without a success.
    """
    topic = check(asked)
    with locked(asked.folder):
        while True:
            try:
                return _run(spark, asked, topic, tell, stop, restarts)
            except DataLostError:
                topic = TopicNow.ask(cluster_of(asked.connection()), asked.topic)
                if not gaps_of(Contents(asked.folder), topic):
                    raise
                # Opened again, it is refused with a sentence, or the gap is recorded.


def check(asked: Asked) -> TopicNow:
    """Whatever can be refused before Spark is started; the folder is there afterwards."""
    if asked.codec not in CODECS:
        raise ArchiveError(f"--codec {asked.codec}: it is {', '.join(CODECS)}.")
    topic = TopicNow.ask(cluster_of(asked.connection()), asked.topic)
    make_folder(asked.folder)
    check_archive(asked.folder, topic, asked.start, accept_gap=asked.accept_gap)
    return topic


def _run(
    spark: "SparkSession",
    asked: Asked,
    topic: TopicNow,
    tell: Callable[[Progress], None] | None,
    stop: threading.Event | None,
    restarts: int | None,
) -> Contents:
    log = TableLog(asked.folder)
    contents = open_archive(log, topic, asked.start, accept_gap=asked.accept_gap)
    vacuum(contents)
    archiver = Archiver(asked, log, contents, current(contents, len(topic.earliest)), tell)
    stop = stop or threading.Event()
    try:
        keep_running(
            lambda: archiver.start(spark),
            stop=stop,
            restarts=restarts,
            told=partial(told, asked.folder),
        )
    finally:
        contents = archiver.close()
    # Whoever stops it does not want to wait until everything is merged.
    if asked.once and not stop.is_set():
        contents = compact(log, contents, target=asked.target_size, many=2, codec=asked.codec)
    vacuum(contents)
    return contents


class Archiver:
    """One generation of the query, and what each of its batches does."""

    def __init__(
        self,
        asked: Asked,
        log: TableLog,
        contents: Contents,
        generation: Generation,
        tell: Callable[[Progress], None] | None,
    ) -> None:
        self._asked = asked
        self._log = log
        self._contents = contents
        self._generation = generation
        self._tell = tell
        self._busy = threading.Lock()
        self._closed = False
        self._vacuumed_at = time.monotonic()

    def start(self, spark: "SparkSession") -> "StreamingQuery":
        """Start the query, or go on with it."""
        asked = self._asked
        # A batch that died may be in all the same, if the disk failed right behind its commit.
        self._contents = Contents(asked.folder, self._log.snapshot())
        starts = {str(each): offset for each, offset in self._generation.starts.items()}
        rows = (
            spark.readStream.format("barnabas")
            .options(**asked.kafka_options())
            .option("subscribe", asked.topic)
            .option("startingOffsets", json.dumps({asked.topic: starts}))
            .option("kafka.group.id", group_of(self._contents))
            .option("columns", ",".join(COLUMNS))
            .option("maxBytesPerTrigger", str(_BATCH_TARGETS * asked.target_size))
            .option("bytesPerTask", str(max(asked.target_size, _TASK_BYTES_MIN)))
            .load()
        )
        query = rows.writeStream.foreachBatch(self.store).queryName(f"archive {asked.topic}")
        query = query.option("checkpointLocation", self._generation.checkpoint)
        if asked.once:
            return query.trigger(availableNow=True).start()
        return query.trigger(processingTime=f"{asked.every_ms} milliseconds").start()

    def close(self) -> Contents:
        """No batch is stored from now on: one that is at it is waited for."""
        with self._busy:
            self._closed = True
            return self._contents

    def store(self, rows: "DataFrame", number: int) -> None:
        """One batch, in Spark's thread."""
        with self._busy:
            if self._closed:
                raise ArchiveError("The archive was closed before this batch: start it again.")
            cluster = cluster_of(self._asked.connection())
            if not self._contents.snapshot.has(self._generation.batch(number)):
                with durable.disk_errors(self._contents.folder):
                    records = self._commit(rows, number, cluster)
                self._told(records, cluster)

    def _commit(self, rows: "DataFrame", number: int, cluster: Cluster) -> int:
        contents, generation = self._contents, self._generation
        ranges = batch_ranges(contents, generation.starts_of(number), generation.ends(number))
        with staging_folder(contents.folder) as staging:
            portions = Staging(staging, self._asked.codec).stage(rows)
            # After reading: of a topic that is the same now, nothing else can have been read.
            if contents.topic_id is not None and contents.topic_id != topic_id(
                cluster, contents.topic
            ):
                raise made_again(contents)
            files = place(contents.folder, staging, cover(contents.topic, ranges, portions))
            snapshot = self._log.commit(
                contents.snapshot,
                add=files,
                batch=generation.batch(number),
                operation="STREAMING UPDATE",
                alone=True,
            )
        self._contents = Contents(contents.folder, snapshot)
        self._contents = compact(
            self._log,
            self._contents,
            target=self._asked.target_size,
            many=MANY,
            codec=self._asked.codec,
            bytes_max=_COMPACTED_TARGETS * self._asked.target_size,
        )
        if time.monotonic() - self._vacuumed_at > _VACUUM_EVERY_S:
            self._vacuumed_at = time.monotonic()
            vacuum(self._contents)
        return sum(portion.records for portion in portions)

    def _told(self, records: int, cluster: Cluster) -> None:
        if self._tell is None:
            return
        contents = self._contents
        count = cluster.partition_counts([contents.topic])[contents.topic]
        places = [Place(contents.topic, partition) for partition in range(count)]
        ends = cluster.latest(places, committed=True)
        lag = sum(max(0, end - contents.end(place.partition)) for place, end in ends.items())
        self._tell(Progress(records, len(contents.snapshot.files), contents.records, lag))


def group_of(contents: Contents) -> str:
    """The consumer group that shows how far the archive is."""
    return f"barnabas-archive-{contents.topic}-{contents.snapshot.table_id[:8]}"
