"""When a segment has had enough, and another is begun."""

from barnabas.config.topic_config import TopicConfig
from barnabas.log.index import TIME_ENTRY_BYTES
from barnabas.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas.wire.records.batch import LOG_OVERHEAD_BYTES, BatchHeader


def should_roll(
    segment: Segment, config: TopicConfig, header: BatchHeader, first_offset: int, now_ms: int
) -> bool:
    """Whether a batch that gets `first_offset` goes into another segment."""
    if segment.size == 0:
        return False
    first, latest = segment.first_timestamp, header.max_timestamp
    waited = latest - first if first >= 0 and latest >= 0 else now_ms - segment.created_ms
    return (
        segment.size + header.length + LOG_OVERHEAD_BYTES > config.segment_bytes
        or waited > config.segment_ms_max - (config.segment_jitter_ms and segment.jitter_ms(config))
        or first_offset + header.last_offset_delta - segment.base_offset > RELATIVE_OFFSET_MAX
        or segment.index_entries * TIME_ENTRY_BYTES > config.segment_index_bytes
    )
