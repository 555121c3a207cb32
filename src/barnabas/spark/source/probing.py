"""Where the next sound batch begins, when a damaged one does not tell.

A broker that checks what it serves answers CORRUPT_MESSAGE for every offset inside a damaged batch,
and says no more. So offsets further on are tried, in steps that double, and the stretch in which
damage ends is halved until the offset is found.
"""

from barnabas.model.errors import ErrorCode
from barnabas.spark.source.cursors import Cursor
from barnabas.spark.source.lanes import Lane
from barnabas.spark.source.portions import examine


def next_sound_offset(lane: Lane, cursor: Cursor) -> int:
    """The first offset after the cursor's that can be read; its end if there is none before.

    The lane must not be waiting. Raises what a lane raises. Should several batches be damaged,
    sound ones between them may be passed over.
    """
    damaged, step = cursor.offset, 1
    sound = cursor.end
    while damaged + step < cursor.end:
        found = _sound_from(lane, cursor, damaged + step)
        if found is not None:
            sound = min(found, cursor.end)
            break
        damaged += step
        step *= 2
    while sound - damaged > 1:
        middle = (damaged + sound) // 2
        found = _sound_from(lane, cursor, middle)
        if found is None:
            damaged = middle
        else:
            # What is served may begin further on, where compaction has left a gap.
            sound = min(middle, max(found, damaged + 1))
    return sound


def _sound_from(lane: Lane, cursor: Cursor, offset: int) -> int | None:
    """Where the batch begins that is served for `offset`; None where damage is in the way."""
    result = lane.try_at(cursor.place, offset)
    if result.error == ErrorCode.corrupt_message.value:
        return None
    examined = examine(memoryview(result.records or b""), offset, cursor.end)
    if examined.batches:
        return examined.batches[0].header.base_offset
    # The first batch always comes whole: one that is cut short says a wrong length.
    return None if examined.damage is not None or examined.missing_bytes else offset
