"""What a query wrote before, which counts when its state does not know of it.

Batches are known by their numbers, in tables and in the markers of topics. A query that begins at
batch 0 again under its old name would take its first batches for those of long ago, and leave them
out.
"""

import os
from typing import TYPE_CHECKING

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import UnavailableError
from barnabas.spark.pipelines.definition import OtherSink, TableSink
from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.sources import path_in
from barnabas.spark.sink.marker import PREFIX
from barnabas.spark.tables import durable
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.places import local_folder
from barnabas.spark.tables.snapshot import Batch, TableError

if TYPE_CHECKING:
    from barnabas.spark.pipelines.queries import Query


def check_unwritten(query: "Query", generation: int) -> None:
    """PipelineError when a query that never began has written; UnavailableError without brokers."""
    name = query.sink_id(generation)
    lost = f"and the state folder {query.pipeline.state} does not know how far it was: put that "
    if isinstance(query.sink, TableSink):
        folder = local_folder(path_in(query.pipeline, query.sink.path.value))
        snapshot = TableLog(folder).snapshot()
        if snapshot is not None and name in snapshot.transactions:
            raise PipelineError(
                query.at,
                f"{query.what}: the table {folder} has rows of it, {lost}folder back, or move the "
                "table away to write it anew.",
            )
    elif not isinstance(query.sink, OtherSink):
        options = query.topic_options(generation)
        if "sinkId" not in options:
            return
        cluster = cluster_of(Connection.from_options(options))
        if cluster.committed_offsets(PREFIX + name, None, stable=True):
            raise PipelineError(
                query.at,
                f"{query.what}: the topic {options['topic']} has rows of it, {lost}folder back, or "
                f"run with --reset {query.name} to write everything again.",
            )


def keep_journal(checkpoint: str, number: int) -> None:
    """Have on the disk which offsets a batch reads, before it is in a table or a topic.

    Spark does not sync its journal. Where the machine loses power, the batch would be written and
    Spark plan another one of the same number, with other rows, which would be taken for it.
    """
    journal = os.path.join(checkpoint, "offsets")
    try:
        durable.sync_file(os.path.join(journal, str(number)))
        durable.sync_folder(journal)
    except OSError as problem:
        raise UnavailableError(f"{problem.filename or journal}: {problem.strerror}.") from problem


def check_newest(folder: str, batch: Batch) -> None:
    """TableError when another batch than this one is in.

    Spark does its last batch again, never one before it; and that one reads what it read before,
    unless the checkpoint is an older copy, by which a batch of the same number has other rows.
    """
    log = TableLog(local_folder(folder))
    snapshot = log.snapshot()
    last = -1 if snapshot is None else snapshot.transactions.get(batch.application, -1)
    is_other = last == batch.number and log.fingerprint(batch) not in ("", batch.fingerprint)
    if last > batch.number or is_other:
        raise TableError(
            f"The table {folder} has batch {last} of this sink, and its checkpoint is at batch "
            f"{batch.number}{' with other rows' if is_other else ''}, as after going back to a "
            "copy of it: go on with the newest checkpoint, or move the table away and begin anew "
            "with --reset."
        )
