"""What became of batches: how much was written, what was a repeat, and errors in a sentence."""

from dataclasses import dataclass
from typing import Final, NamedTuple, NoReturn

from crc32c import crc32c

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.cluster.retrying import refuse
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.wire.records.batch import HEADER_BYTES, BatchHeader, parse_header


class OutOfOrderSequenceError(SparkJobError):
    """The partition misses batches before this one, or has others in their place."""

    restart_helps = True

    def __init__(self, place: Place, sequence: int, said: str) -> None:
        super().__init__(
            f"The leader of {place} refuses the batch with sequence {sequence}, as others of this "
            f"producer than those before it are there ({said}): write the rows again."
        )
        self.place = place
        self.sequence = sequence


@dataclass(slots=True)
class WrittenRows:
    """What was written to one partition."""

    rows: int = 0
    bytes: int = 0
    """As sent: compressed, with the headers of batches."""
    batches: int = 0
    first_offset: int = -1
    """-1 where nothing tells it: acks=0."""
    last_offset: int = -1

    def add(self, header: BatchHeader, base_offset: int) -> None:
        """One batch that is acknowledged."""
        self.rows += header.count
        self.bytes += header.size
        self.batches += 1
        if base_offset < 0:
            return
        if self.first_offset < 0 or base_offset < self.first_offset:
            self.first_offset = base_offset
        self.last_offset = max(self.last_offset, base_offset + header.last_offset_delta)


class Duplicate(NamedTuple):
    """A batch that the leader says it had already, or may have had.

    A broker tells a repeat by its time: on topics with CreateTime only repeats are answered with
    one. On topics with LogAppendTime all are, so that each batch is listed and only `resent` tells
    which can be repeats of our own.
    """

    place: Place
    base_offset: int
    """-1 when the leader only knows that it is old."""
    sequence: int
    rows: int
    crc: int
    """Of the batch as it was sent: what lies at `base_offset` has it too, if it is the same and
    neither the broker's time nor another codec was put in."""
    records_crc: int
    """CRC-32C of the batch's records, as sent: compressed, without the header."""
    resent: bool
    """Whether it was sent more than once by this session."""


def duplicate_of(place: Place, data: bytes, base_offset: int, *, resent: bool) -> Duplicate:
    """The batch `data`, which the leader has at `base_offset`."""
    header = parse_header(data)
    records = crc32c(memoryview(data)[HEADER_BYTES:])
    return Duplicate(
        place, base_offset, header.base_sequence, header.count, header.crc, records, resent
    )


_ADVICE: Final = {
    ErrorCode.not_enough_replicas: (
        "fewer replicas are in sync than min.insync.replicas wants: bring the brokers back that "
        "are missing"
    ),
    ErrorCode.not_enough_replicas_after_append: (
        "fewer replicas are in sync than min.insync.replicas wants: bring the brokers back that "
        "are missing"
    ),
    ErrorCode.kafka_storage_error: (
        "the broker can not write to its disk: look into its log, and free space if it is full"
    ),
    ErrorCode.request_timed_out: "the replicas have not confirmed it in time",
    ErrorCode.unknown_topic_or_partition: "it is not there: was the topic deleted?",
    ErrorCode.not_leader_or_follower: "its leader moves: see whether its brokers are well",
}
"""For errors that may pass, in case they do not."""

_REFUSALS: Final = {
    ErrorCode.invalid_timestamp: (
        "a time in the column timestamp lies further from now than message.timestamp.before.max.ms "
        "and message.timestamp.after.max.ms of the topic allow: correct it, or leave "
        "includeTimestamp out"
    ),
    ErrorCode.invalid_record: (
        "records do not fit the topic ({said}): a compacted topic wants a key in every row"
    ),
    ErrorCode.invalid_topic_exception: "nobody writes to that topic but the brokers: take another",
    ErrorCode.topic_authorization_failed: "this user may not write to the topic: ask for an ACL",
    ErrorCode.corrupt_message: (
        "the batch arrived damaged ({said}): look at the network between, and start again"
    ),
    ErrorCode.unsupported_compression_type: (
        "the broker does not know that codec: choose another kafka.compression.type"
    ),
}


def advice_on(code: ErrorCode, message: str | None) -> KafkaError:
    """An error that may pass, with what to do should it stay."""
    return KafkaError(code, _ADVICE.get(code) or message or "")


def refuse_batch(place: Place, code: ErrorCode, message: str | None, size: int) -> NoReturn:
    """The sentence for an error that sending again does not mend."""
    problem = KafkaError(code, message or "")
    if code in (ErrorCode.message_too_large, ErrorCode.record_list_too_large):
        raise SparkJobError(
            f"A record for {place}, {size} bytes with its batch, is larger than max.message.bytes "
            "of the topic (or message.max.bytes of the broker) allows: raise that, or write "
            "smaller records."
        ) from problem
    if code in _REFUSALS:
        reason = _REFUSALS[code].format(said=message or code.name.upper())
        raise SparkJobError(f"Writing to {place} is refused: {reason}.") from problem
    refuse(f"Writing to {place}", problem)
