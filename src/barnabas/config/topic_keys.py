"""Every topic key of Kafka 4.3, with Kafka's defaults."""

from typing import Final

from barnabas.config import checks
from barnabas.config.keys import (
    INT_MAX,
    LONG_MAX,
    Check,
    ConfigType,
    Key,
    Synonym,
    Update,
    Value,
)

_DAY_MS: Final = 24 * 3600 * 1000
_HOUR_MS: Final = 3600 * 1000
_MINUTE_MS: Final = 60 * 1000

SEGMENT_BYTES_MIN: Final = 1024 * 1024
"""Kafka's own floor since 4.0: smaller segments cost more files and descriptors than they help."""

MESSAGE_BYTES_DEFAULT: Final = 1024 * 1024 + 12
"""One mebibyte of batch after the twelve bytes of offset and length."""

_NO_REMOTE: Final = "tiered storage is not available, every segment stays on this broker's disk"
_NO_PREALLOCATION: Final = "segments are not preallocated by this broker"

_B, _I, _L = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LONG
_D, _S, _LIST = ConfigType.DOUBLE, ConfigType.STRING, ConfigType.LIST


def _key(
    name: str,
    type_: ConfigType,
    default: Value,
    doc: str,
    check: Check | None = None,
    *synonyms: Synonym | str,
) -> Key:
    return Key(
        name=name,
        type=type_,
        default=default,
        doc=doc,
        check=check,
        update=Update.CLUSTER_WIDE,
        synonyms=tuple(Synonym(each) if isinstance(each, str) else each for each in synonyms),
    )


def _refused(
    name: str,
    type_: ConfigType,
    default: Value,
    doc: str,
    reason: str,
    *synonyms: str,
) -> Key:
    return Key(
        name=name,
        type=type_,
        default=default,
        doc=doc,
        update=Update.CLUSTER_WIDE,
        synonyms=tuple(Synonym(each) for each in synonyms),
        refusal=reason,
    )


# fmt: off
_ROWS: Final = (
    # What is kept, and for how long.
    _key("cleanup.policy", _LIST, ("delete",),
         "Old segments are deleted, or compacted to the last record of each key, or both, because "
         "events expire while tables do not.",
         checks.members_of("compact", "delete"), "log.cleanup.policy"),
    _key("retention.ms", _L, 7 * _DAY_MS,
         "A segment whose newest record is older is deleted, so that a topic's age is bounded; -1 "
         "keeps it forever.",
         checks.at_least(-1), "log.retention.ms",
         Synonym("log.retention.minutes", _MINUTE_MS), Synonym("log.retention.hours", _HOUR_MS)),
    _key("retention.bytes", _L, -1,
         "The oldest segments of a partition that has grown past this are deleted, so that its "
         "size is bounded; -1 sets no bound.",
         None, "log.retention.bytes"),
    _key("file.delete.delay.ms", _L, 60_000,
         "A removed file waits so long before it leaves the disk, so that readers who hold it can "
         "finish.",
         checks.at_least(0), "log.segment.delete.delay.ms"),
    # Compaction.
    _key("delete.retention.ms", _L, _DAY_MS,
         "A tombstone stays so long after compaction, so that a reader who started before sees "
         "the deletion.",
         checks.at_least(0), "log.cleaner.delete.retention.ms"),
    _key("min.cleanable.dirty.ratio", _D, 0.5,
         "The share of a log that is not compacted yet before it is worth rewriting.",
         checks.between(0, 1), "log.cleaner.min.cleanable.ratio"),
    _key("min.compaction.lag.ms", _L, 0,
         "A record stays as written for at least so long, so that consumers can see every value.",
         checks.at_least(0), "log.cleaner.min.compaction.lag.ms"),
    _key("max.compaction.lag.ms", _L, LONG_MAX,
         "A record is compacted after so long at the latest, for those who must forget in time.",
         checks.at_least(1), "log.cleaner.max.compaction.lag.ms"),
    # Segments and their indexes.
    _key("segment.bytes", _I, 1024**3,
         "A segment is closed at this size, because only closed segments are deleted or "
         "compacted.",
         checks.at_least(SEGMENT_BYTES_MIN), "log.segment.bytes"),
    _key("segment.ms", _L, 7 * _DAY_MS,
         "A segment is closed at this age even if small, so that retention works on quiet topics.",
         checks.at_least(1), "log.roll.ms", Synonym("log.roll.hours", _HOUR_MS)),
    _key("segment.jitter.ms", _L, 0,
         "A random part of this is taken off `segment.ms`, so that partitions do not roll at once.",
         checks.at_least(0), "log.roll.jitter.ms", Synonym("log.roll.jitter.hours", _HOUR_MS)),
    _key("segment.index.bytes", _I, 10 * 1024 * 1024,
         "The most an index of one segment grows to; the segment is closed when it is full.",
         checks.at_least(4), "log.index.size.max.bytes"),
    _key("index.interval.bytes", _I, 4096,
         "Bytes of log between two index entries: fewer make lookups shorter and indexes longer.",
         checks.at_least(0), "log.index.interval.bytes"),
    _refused("preallocate", _B, False,
             "Whether a new segment's file is laid out at full size at once.",
             _NO_PREALLOCATION, "log.preallocate"),
    # Durability.
    _key("flush.messages", _L, LONG_MAX,
         "Records after which a partition is synced to disk; 1 syncs before every "
         "acknowledgement.",
         checks.at_least(1), "log.flush.interval.messages"),
    _key("flush.ms", _L, LONG_MAX,
         "The longest a record may wait to be synced to disk.",
         checks.at_least(0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    _key("min.insync.replicas", _I, 1,
         "Replicas that must hold a record before `acks=all` is answered, so that losing fewer "
         "loses nothing.",
         checks.at_least(1), "min.insync.replicas"),
    _key("unclean.leader.election.enable", _B, False,
         "Whether a replica that is not in sync may lead when no other is left: available, but "
         "records are lost.",
         None, "unclean.leader.election.enable"),
    # What a record may be.
    _key("max.message.bytes", _I, MESSAGE_BYTES_DEFAULT,
         "The largest record batch (after compression) a partition accepts, because each must "
         "fit in memory.",
         checks.at_least(0), "message.max.bytes"),
    _key("message.timestamp.type", _S, "CreateTime",
         "Whether a record keeps its producer's time or gets the time of its append.",
         checks.one_of("CreateTime", "LogAppendTime"), "log.message.timestamp.type"),
    _key("message.timestamp.before.max.ms", _L, LONG_MAX,
         "A record whose own time lies further in the past is refused.",
         checks.at_least(0), "log.message.timestamp.before.max.ms"),
    _key("message.timestamp.after.max.ms", _L, _HOUR_MS,
         "A record whose own time lies further in the future is refused, because it would outlive "
         "retention.",
         checks.at_least(0), "log.message.timestamp.after.max.ms"),
    # Compression.
    _key("compression.type", _S, "producer",
         "The codec batches are stored with; `producer` stores them as they came, which costs "
         "nothing.",
         checks.one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
         "compression.type"),
    _key("compression.gzip.level", _I, -1, "How hard gzip tries when this topic uses it.",
         checks.gzip_level, "compression.gzip.level"),
    _key("compression.lz4.level", _I, 9, "How hard lz4 tries when this topic uses it.",
         checks.between(1, 17), "compression.lz4.level"),
    _key("compression.zstd.level", _I, 3, "How hard zstd tries when this topic uses it.",
         checks.between(-131072, 22), "compression.zstd.level"),
    # Replication traffic.
    _key("leader.replication.throttled.replicas", _LIST, (),
         "Replicas whose leader sends within the replication quota, so that a move leaves room "
         "for clients.",
         checks.throttled_replicas),
    _key("follower.replication.throttled.replicas", _LIST, (),
         "Replicas that fetch within the replication quota, so that a move leaves room for "
         "clients.",
         checks.throttled_replicas),
    # Tiered storage.
    _refused("remote.storage.enable", _B, False,
             "Whether closed segments are copied to remote storage.", _NO_REMOTE),
    _refused("remote.log.copy.disable", _B, False,
             "Whether a topic with remote storage has stopped copying to it.", _NO_REMOTE),
    _refused("remote.log.delete.on.disable", _B, False,
             "Whether remote data goes when remote storage is turned off.", _NO_REMOTE),
    _refused("local.retention.ms", _L, -2,
             "How long a copied segment stays on local disk too; -2 means `retention.ms`.",
             _NO_REMOTE),
    _refused("local.retention.bytes", _L, -2,
             "How much of a copied partition stays on local disk too; -2 means `retention.bytes`.",
             _NO_REMOTE),
    # Kafka's own back door past the floor of segment.bytes, for tests of rolling and retention.
    Key(name="internal.segment.bytes", type=_I, default=None, internal=True,
        doc="As `segment.bytes`, without its lower bound: for tests only.",
        check=checks.between(61, INT_MAX), update=Update.CLUSTER_WIDE),
)
# fmt: on

TOPIC_KEYS: Final[dict[str, Key]] = {key.name: key for key in sorted(_ROWS, key=lambda k: k.name)}
"""By name, in the order Kafka lists them."""
