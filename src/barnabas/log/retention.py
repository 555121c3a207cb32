"""What a log may let go of: by time, by size, or because it lies below the log's start."""

from collections.abc import Sequence
from itertools import pairwise

from barnabas.config.topic_config import TopicConfig
from barnabas.log.segment import Segment


def expired_segments(
    segments: Sequence[Segment], config: TopicConfig, *, start_offset: int, up_to: int, now_ms: int
) -> list[Segment]:
    """The oldest segments that may go.

    Never the newest, never one that holds a record at or after `up_to`, and none before the
    segment after it is synced by name: that one's snapshot must survive.
    """
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    gone: list[Segment] = []
    for segment, following in pairwise(segments):
        end = following.base_offset
        too_old = config.deletes and 0 <= config.retention_ms < now_ms - segment.newest_ms
        too_much = config.deletes and config.retention_bytes >= 0 and excess >= segment.size
        wanted = too_old or too_much or end <= start_offset
        if end > up_to or not following.name_synced or not wanted:
            break
        excess -= segment.size
        gone.append(segment)
    return gone


def is_past_retention(segment: Segment, config: TopicConfig, now_ms: int) -> bool:
    """Whether all that a segment holds is older than `retention.ms`."""
    return (
        config.deletes
        and segment.size > 0
        and 0 <= config.retention_ms < now_ms - segment.newest_ms
    )
