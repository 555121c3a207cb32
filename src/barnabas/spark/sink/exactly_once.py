"""Exactly once: one transaction for all tasks of a batch, and in it the batch's own number.

The driver begins it when Spark pickles the writer for the tasks (`__getstate__`), which happens in
the planning process, once for a batch, before any task runs. Beginning takes the sink over: it
aborts what an earlier run left open, and fences everything that still runs of it. Then the marker
tells which batch is the newest that was committed. Tasks write with the producer id and epoch they
were given, and say where and how much. The driver compares that with what the brokers have,
commits marker and source offsets into the transaction, and ends it: that one decision makes rows,
marker and offsets visible together, or none of them.
"""

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas.model.check import require
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.transactions import (
    Producer,
    add_partitions,
    commit_offsets_in,
    end,
    init_producer_id,
    uses_newest_protocol,
)
from barnabas.spark.errors import (
    FencedError,
    GivenUpError,
    SparkJobError,
    UnavailableError,
    UnknownTopicError,
)
from barnabas.spark.places import Place
from barnabas.spark.sink.batches import SEQUENCES
from barnabas.spark.sink.guard import (
    Numbers,
    PartitionGuard,
    check_transaction,
    describe_transaction,
    gather,
    was_aborted,
)
from barnabas.spark.sink.journal import fingerprint, source_offsets
from barnabas.spark.sink.marker import (
    Marker,
    check_offsets,
    check_query,
    check_write,
    marker_offsets,
    markers_of,
    name_of_batch_sink,
    name_of_query_sink,
    newest,
    newest_of_write,
)
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.outcomes import OutOfOrderSequenceError
from barnabas.spark.sink.producing import PRODUCE_VERSION_MAX, ProducerSession
from barnabas.spark.sink.rows import RowShape
from barnabas.spark.sink.writing import RowWriter

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
_SPECULATION: Final = "spark.speculation"
_OLD_PRODUCE: Final = PRODUCE_VERSION_MAX - 1
"""The newest version of Produce that leaves adding partitions to us."""
_ENDED: Final = frozenset({ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable})

_log = logging.getLogger("barnabas.spark")


@dataclass(frozen=True)
class Begun:
    """A batch's transaction, as the driver has begun it: the same for all tasks."""

    sink: str
    """Its transactional id, and the group of its markers."""
    producer: Producer
    last: Marker | None
    """Of the sink."""
    here: Marker | None
    """The one that tells whether this write is committed."""
    newest: bool
    """Whether it goes by transaction.version 2."""
    timeout_s: float
    since: float
    """By the driver's clock."""


class Task(NamedTuple):
    """What Spark tells a task about itself."""

    attempt: int
    batch_id: int | None
    query_id: str
    speculative: bool

    @classmethod
    def current(cls) -> "Task":
        """The one that runs in this process."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise SparkJobError("An exactly-once write runs in tasks of Spark, and only there.")
        batch_id = context.getLocalProperty(_BATCH_ID)
        return cls(
            attempt=context.attemptNumber(),
            batch_id=None if batch_id is None else int(batch_id),
            query_id=context.getLocalProperty(_QUERY_ID) or "",
            speculative=(context.getLocalProperty(_SPECULATION) or "").lower() == "true",
        )


@dataclass
class TaskWrote(WriterCommitMessage):
    """What one task has written, and as whom; None for a batch that was committed before."""

    begun: Begun
    query_id: str
    written: dict[Place, Numbers] | None


@dataclass
class TaskFailed(WriterCommitMessage):
    """What a task has died of.

    It is told to the driver, not raised: Spark would repeat the task, which can not go well, and
    show only what the last repetition has raised.
    """

    begun: Begun
    reason: SparkJobError


class _ExactlyOnce:
    """What batches and streams share; it travels to the tasks once the transaction is begun."""

    def __init__(self, options: SinkOptions, shape: RowShape, sink: str) -> None:
        self.options: Final = options
        self.shape: Final = shape
        self.sink: Final = sink
        self.begun: Begun | None = None
        if options.source_group is not None and options.checkpoint is None:
            raise SparkJobError(
                "The sink's option sourceGroup needs the query's checkpoint, where the offsets of "
                "a batch are kept: set the option checkpointLocation too, or leave it out."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Begins the batch: Spark pickles a writer in the driver's planning process alone."""
        if self.begun is None:
            self.begun = begin(self.options, self.sink)
        return dict(self.__dict__)

    def _write(
        self, iterator: "Iterator[pa.RecordBatch]", batch_id: int | None, task: Task
    ) -> TaskWrote | TaskFailed:
        begun = self._of_driver()
        check_query(self.sink, begun.last, task.query_id)
        if self._is_committed(begun.here, batch_id):
            _see_through(iterator)
            return TaskWrote(begun, task.query_id, None)
        cluster = cluster_of(self.options.connection)
        try:
            check_attempt(task)
            guard = PartitionGuard(cluster, begun.producer, self.options.codec)
            written = write_rows(guard, self.options, self.shape, begun, iterator)
        except Exception as problem:
            reason = explained(cluster, begun, problem)
            _give_up(cluster, begun, reason)
            if not isinstance(reason, SparkJobError):
                raise
            if task.attempt > 0:
                # If it was the task's input that failed, it shall fail again, and be told by Spark.
                _see_through(iterator)
            return TaskFailed(begun, reason)
        return TaskWrote(begun, task.query_id, written)

    def _of_driver(self) -> Begun:
        require(self.begun is not None, "a writer reaches a task by pickle, which begins its batch")
        return self.begun  # type: ignore[return-value]

    def _is_committed(self, here: Marker | None, batch_id: int | None) -> bool:
        return here is not None and batch_id is not None and batch_id <= here.batch_id

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        check_failed(messages)
        wrote = [message for message in messages if isinstance(message, TaskWrote)]
        require(len(wrote) == len(messages), "every task of a batch to be committed has reported")
        written = [each.written for each in wrote if each.written is not None]
        begun = wrote[0].begun
        if not written:
            check_offsets(begun.sink, begun.here, fingerprint_of(self.options, batch_id))
            return
        same = len(written) == len(wrote) and all(
            each.begun.producer == begun.producer for each in wrote
        )
        require(same, "all tasks of a batch belong to one transaction")
        commit(self.options, begun, wrote[0].query_id, batch_id, gather(written))

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Whatever has been decided stays: brokers refuse to abort what is committed."""
        told = [message for message in messages if isinstance(message, TaskWrote | TaskFailed)]
        skipped = any(isinstance(each, TaskWrote) and each.written is None for each in told)
        begun = told[0].begun if told else self.begun
        if begun is None or skipped:
            return
        _try_abort(cluster_of(self.options.connection), begun)


class ExactlyOnceStreamWriter(_ExactlyOnce, DataSourceStreamArrowWriter):
    """`df.writeStream.format("barnabas").option("delivery", "exactly-once")`."""

    def __init__(self, options: SinkOptions, shape: RowShape) -> None:
        super().__init__(options, shape, name_of_query_sink(options))

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskWrote | TaskFailed:
        """The rows of one task, in the batch's transaction."""
        task = Task.current()
        if task.batch_id is None:
            raise SparkJobError(
                "Spark does not tell this task which batch it writes, and without that nothing can "
                "be written exactly once: use the micro-batch trigger of a release that does."
            )
        return self._write(iterator, task.batch_id, task)

    def _is_committed(self, here: Marker | None, batch_id: int | None) -> bool:
        if here is not None and batch_id is not None and batch_id < here.batch_id:
            # Spark repeats its newest batch alone; skipping an older one could skip new rows.
            raise SparkJobError(
                f"The sink has committed batch {here.batch_id}, and the query is at batch "
                f"{batch_id}, so another driver works on its checkpoint, or it is older than what "
                "was written: leave the query to that driver, or go on with the newest checkpoint, "
                "or set the option sinkId to a new name to write everything from here on once more."
            )
        return super()._is_committed(here, batch_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Decide the batch."""
        self._commit(messages, batchId)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002, N803
    ) -> None:
        """Give the batch up, where a task has told as whom it wrote; else the next begin does."""
        self._abort(messages)


class ExactlyOnceWriter(_ExactlyOnce, DataSourceArrowWriter):
    """`df.write.format("barnabas").option("delivery", "exactly-once")`.

    With sinkId and batchId a write that was committed before is skipped, whoever repeats it. Writes
    of one batch to several topics may share both.
    """

    def __init__(self, options: SinkOptions, shape: RowShape) -> None:
        super().__init__(options, shape, name_of_batch_sink(options))

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskWrote | TaskFailed:
        """The rows of one task, in the write's transaction."""
        return self._write(iterator, self.options.batch_id, Task.current())

    def _is_committed(self, here: Marker | None, batch_id: int | None) -> bool:
        if here is not None and batch_id is not None:
            check_write(self.sink, here, batch_id, self.options.topic)
        return super()._is_committed(here, batch_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decide the write."""
        self._commit(messages, self.options.batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Give the write up."""
        self._abort(messages)


# On the driver


def begin(options: SinkOptions, sink: str) -> Begun:
    """Take the sink over. Only then is its marker final: nobody else can commit any more."""
    cluster = cluster_of(options.connection)
    newest_protocol = uses_newest_protocol(cluster)
    producer = init_producer_id(cluster, sink, options.transaction_timeout_ms)
    markers = markers_of(cluster, sink)
    last = newest(markers.values())
    return Begun(
        sink=sink,
        producer=producer,
        last=last,
        here=last if options.batch_id is None else newest_of_write(markers, options.topic),
        newest=newest_protocol,
        timeout_s=options.transaction_timeout_ms / 1000,
        since=time.time(),
    )


def check_failed(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raise what a task has died of; of several, what needs a change rather than a new start."""
    reasons = [message.reason for message in messages if isinstance(message, TaskFailed)]
    if reasons:
        raise min(reasons, key=lambda each: (isinstance(each, GivenUpError), each.restart_helps))


def commit(
    options: SinkOptions,
    begun: Begun,
    query_id: str,
    batch_id: int | None,
    written: dict[Place, Numbers],
) -> None:
    """Decide a batch that its tasks have written.

    A batch without rows needs no marker, for repeating it doubles nothing: without source offsets
    there is nothing to decide at all.
    """
    sources: dict[Place, tuple[int, str]] = {}
    if options.source_group is not None and options.checkpoint is not None and batch_id is not None:
        offsets = source_offsets(options.checkpoint, batch_id)
        sources = {place: (offset, "") for place, offset in offsets.items()}
    if not written and not sources:
        return
    cluster = cluster_of(options.connection)
    try:
        check_transaction(cluster, begun.sink, begun.producer, written)
        if batch_id is not None and written:
            last_query = begun.last.query_id if begun.last is not None else ""
            marker = Marker(
                batch_id,
                query_id or last_query,
                fingerprint_of(options, batch_id),
                options.topic or "",
            )
            _commit_offsets(
                cluster, begun, begun.sink, marker_offsets({p.topic for p in written}, marker)
            )
        if sources:
            _commit_sources(cluster, begun, options.source_group or "", sources)
        end(cluster, begun.sink, begun.producer, commit=True, newest=begun.newest)
    except (SparkJobError, KafkaError) as problem:
        raise explained(cluster, begun, problem) from problem


def fingerprint_of(options: SinkOptions, batch_id: int | None) -> str:
    """What the checkpoint says of a batch, in short; empty where it says nothing."""
    if options.checkpoint is None or batch_id is None:
        return ""
    return fingerprint(options.checkpoint, batch_id)


def _commit_offsets(
    cluster: Cluster, begun: Begun, group: str, offsets: dict[Place, tuple[int, str]]
) -> None:
    commit_offsets_in(cluster, begun.sink, begun.producer, group, offsets, newest=begun.newest)


def _commit_sources(
    cluster: Cluster, begun: Begun, group: str, offsets: dict[Place, tuple[int, str]]
) -> None:
    try:
        _commit_offsets(cluster, begun, group, offsets)
    except UnknownTopicError as problem:
        raise SparkJobError(
            f"The offsets of the query's sources can not be committed to the group {group} with "
            f"the rows, as the sink's cluster does not have their topics ({problem}): leave the "
            "option sourceGroup out when source and sink are on different clusters."
        ) from problem


def _try_abort(cluster: Cluster, begun: Begun) -> None:
    try:
        end(cluster, begun.sink, begun.producer, commit=False, newest=begun.newest)
    except SparkJobError as problem:
        _log.info("The transaction of %s was not aborted by this run: %s", begun.sink, problem)


# In the tasks


def check_attempt(task: Task) -> None:
    """SparkJobError for a task that is run again, or could be: half of it may be written."""
    if task.speculative:
        raise SparkJobError(
            "spark.speculation is on, and a task that runs twice can not write exactly once: set "
            "spark.speculation=false."
        )
    if task.attempt > 0:
        raise GivenUpError(
            "A task of this exactly-once batch has failed (its own error tells why), and what it "
            "had written can not be told from what its repetition would write: the batch is given "
            "up, so start the query again, or let barnabas.spark.keep_running do it."
        )


def write_rows(
    guard: PartitionGuard,
    options: SinkOptions,
    shape: RowShape,
    begun: Begun,
    iterator: "Iterator[pa.RecordBatch]",
) -> dict[Place, Numbers]:
    """All rows of one task, with nobody else's on the same partitions."""
    cluster = cluster_of(options.connection)

    def before_first(places: Collection[Place]) -> None:
        guard.before_first(places)
        if not begun.newest:
            add_partitions(cluster, begun.sink, begun.producer, places)

    session = ProducerSession(
        cluster,
        options,
        begun.producer,
        transactional_id=begun.sink,
        produce_version_max=PRODUCE_VERSION_MAX if begun.newest else _OLD_PRODUCE,
        before_first=before_first,
    )
    try:
        written = RowWriter(options, shape, session).write(iterator)
    except OutOfOrderSequenceError as problem:
        acked = session.take_written().get(problem.place)
        raise guard.out_of_order(problem, acked.rows - 1 if acked else -1) from problem
    guard.check_repeats(session.duplicates)
    return {
        place: Numbers(each.rows, (each.rows - 1) % SEQUENCES) for place, each in written.items()
    }


def _see_through(iterator: "Iterator[pa.RecordBatch]") -> None:
    """Operators before this one, and the state they keep, want to have their rows taken."""
    for _ in iterator:
        pass


def _give_up(cluster: Cluster, begun: Begun, reason: Exception) -> None:
    """No task of a batch can be repeated, so the batch is lost with the first that fails.

    Aborting at once spares readers the transaction's timeout. It ends the epoch, so that no other
    task writes on; before transaction.version 2 it would not, and the next begin does it instead.
    """
    if begun.newest and not isinstance(reason, FencedError):
        _try_abort(cluster, begun)


# Why it was refused


def explained(cluster: Cluster, begun: Begun, problem: Exception) -> Exception:
    """The same problem, or the sentence that says what is behind a producer's being fenced."""
    cause = problem if isinstance(problem, KafkaError) else problem.__cause__
    ended = isinstance(cause, KafkaError) and cause.code in _ENDED
    fenced = isinstance(problem, FencedError | KafkaError)
    if not ended and not fenced:
        return problem
    if was_aborted(describe_transaction(cluster, begun.sink), begun.producer):
        if time.time() - begun.since >= begun.timeout_s:
            return UnavailableError(
                f"The batch took longer than its transaction may ({begun.timeout_s:.0f} s), so the "
                "brokers have aborted it and nothing of it is committed: raise "
                "kafka.transaction.timeout.ms, or make batches smaller with maxOffsetsPerTrigger."
            )
        return GivenUpError(
            "The batch was given up because another of its tasks has failed, whose own error tells "
            "why: nothing of it is committed, so start the query again."
        )
    if ended and not fenced:
        return UnavailableError(
            f"{problem} Nothing of the batch is committed, so start the query again."
        )
    return FencedError(
        f"Another run of this query has taken over its sink ({begun.sink}), so nothing of this "
        "batch is committed: stop one of the two, or give them different checkpoints or sinkIds."
    )
