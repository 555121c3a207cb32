"""Who a sink is to the cluster, and which of its batches is known to be written.

The marker of a batch is its number, committed as an offset inside the batch's own transaction: it
is there if, and only if, the rows are. It is kept for partition 0 of every topic that the batch
wrote to, in a consumer group that belongs to the sink alone; the highest one counts. So it needs
no topic of its own, no place has to be agreed on before the rows are seen, and deleting one of
several topics does not make the sink forget. Of batch writes a batch may have several, as in
foreachBatch: there the marker of the topic counts that the write names.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.sink.journal import local_path
from barnabas.spark.sink.options import SinkOptions

PREFIX: Final = "barnabas-spark-"
_QUERY: Final = "queryId"
_OFFSETS: Final = "offsets"
_TOPIC: Final = "topic"
_HASH_LETTERS: Final = 24
"""96 bits: two checkpoints never share an identity by chance."""


class Marker(NamedTuple):
    """The newest batch of a sink that is committed, and the query that wrote it."""

    batch_id: int
    query_id: str
    """Empty where a plain write, outside of any query, has made it."""
    offsets: str = ""
    """Fingerprint of what the batch read from its sources; empty where it is not known."""
    topic: str | None = None
    """The one that the write was for; empty where each row names its own, None if not known."""


def name_of_query_sink(options: SinkOptions) -> str:
    """Transactional id and marker group of a streaming query's sink."""
    if options.sink_id is not None:
        return PREFIX + options.sink_id
    if options.checkpoint is None:
        raise SparkJobError(
            "delivery=exactly-once needs to know which sink this is: set the option "
            "checkpointLocation on the query itself (not only in Spark's settings), or sinkId."
        )
    location = local_path(options.checkpoint) or options.checkpoint.rstrip("/")
    digest = hashlib.sha256(location.encode()).hexdigest()
    return PREFIX + digest[:_HASH_LETTERS]


def name_of_batch_sink(options: SinkOptions) -> str:
    """Transactional id of one batch write, and its marker group if it has a batchId."""
    if options.sink_id is not None:
        return PREFIX + options.sink_id
    if options.batch_id is not None:
        raise SparkJobError(
            "The option batchId says which write of a sink this is, so it needs the option sinkId "
            "to say of which sink: set both, or neither."
        )
    return PREFIX + uuid.uuid4().hex


def markers_of(cluster: Cluster, sink: str) -> dict[Place, Marker]:
    """Where which batch is committed; to be asked after the sink has been taken over.

    Taking over waits for the end of every earlier transaction, so nothing is pending any more.
    """
    found = cluster.committed_offsets(sink, None, stable=True)
    return {place: _marker(offset, metadata) for place, (offset, metadata) in found.items()}


def newest(markers: Iterable[Marker]) -> Marker | None:
    """The one of the highest batch."""
    return max(markers, key=lambda marker: (marker.batch_id, marker.query_id), default=None)


def newest_of_write(markers: Mapping[Place, Marker], topic: str | None) -> Marker | None:
    """The one that tells of this write, among others of the same batch."""
    if topic is not None:
        return markers.get(Place(topic, 0))
    return newest(marker for marker in markers.values() if not marker.topic)


def marker_offsets(topics: Iterable[str], marker: Marker) -> dict[Place, tuple[int, str]]:
    """What to commit for a batch that wrote to these topics."""
    metadata = json.dumps({_QUERY: marker.query_id, _OFFSETS: marker.offsets, _TOPIC: marker.topic})
    return {Place(topic, 0): (marker.batch_id, metadata) for topic in topics}


def check_query(sink: str, last: Marker | None, query_id: str) -> None:
    """SparkJobError where the marker is another query's: batch numbers would mean nothing."""
    if last is None or not last.query_id or not query_id or last.query_id == query_id:
        return
    raise SparkJobError(
        f"The sink {sink.removeprefix(PREFIX)} belongs to the query {last.query_id}, which has "
        f"written up to batch {last.batch_id}, and this is the query {query_id}, so its checkpoint "
        "is another one, or was deleted: go on with the query's own checkpoint, or set the option "
        f"sinkId to a new name (or delete the group {sink}) to write everything once more."
    )


def check_offsets(sink: str, last: Marker | None, offsets: str) -> None:
    """SparkJobError where a batch that is skipped is not the one that was committed."""
    if last is None or not last.offsets or not offsets or last.offsets == offsets:
        return
    raise SparkJobError(
        f"The sink {sink.removeprefix(PREFIX)} has committed batch {last.batch_id} of this query, "
        "but the checkpoint has a batch of that number which reads other offsets, as after going "
        "back to a copy of it: go on with the newest checkpoint, or set the option sinkId to a new "
        "name to write everything from here on once more."
    )


def check_write(sink: str, here: Marker, batch_id: int, topic: str | None) -> None:
    """SparkJobError where a batch write can not be told from one that was committed."""
    name = sink.removeprefix(PREFIX)
    if batch_id < here.batch_id:
        # Skipping it could lose its rows.
        raise SparkJobError(
            f"The sink {name} has committed batch {here.batch_id}, and this write is of batch "
            f"{batch_id}, of which nobody knows any more whether it was written: count batchId "
            "upwards, or set the option sinkId to a new name to write it in any case."
        )
    if batch_id == here.batch_id and here.topic not in (None, topic or ""):
        raise SparkJobError(
            f"The sink {name} has committed batch {batch_id} with another write, to the same topic "
            "as this one, so nobody knows whether this one was written: give each write of a batch "
            "a sinkId of its own."
        )


def _marker(batch_id: int, metadata: str) -> Marker:
    try:
        found = json.loads(metadata)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        return Marker(batch_id, "")
    topic = found.get(_TOPIC)
    return Marker(
        batch_id,
        str(found.get(_QUERY, "")),
        str(found.get(_OFFSETS, "")),
        None if topic is None else str(topic),
    )
