"""Producers whose batches carry no timestamp are not forgotten after a start."""

import pytest
from tests.log.conftest import NOW_MS, append, batch, open_log

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.world.memory import MemoryFiles

DAY_MS = 24 * 3_600_000
CONFIG = TopicConfig(segment_bytes=200)


@pytest.mark.parametrize("how", ["recovered", "replayed", "from a snapshot"])
@pytest.mark.parametrize("timestamp", [-1, NOW_MS - 10 * DAY_MS])
def test_the_start_counts_as_a_sign_of_life_where_there_is_no_other(
    files: MemoryFiles, how: str, timestamp: int
) -> None:
    log = open_log(files, config=CONFIG)
    for sequence in range(6):
        append(log, batch(b"x", timestamp=timestamp, producer=(7, 0, sequence)))
    clean = how != "recovered"
    log.close(clean=clean)
    if how == "replayed":
        for name in files.list("data/events-0"):
            if name.endswith(names.SNAPSHOT):
                files.remove(f"data/events-0/{name}")
    log = open_log(files, clean=clean, now_ms=NOW_MS, config=CONFIG)
    log.producers.expire(NOW_MS - DAY_MS)
    assert (log.producers.get(7) is not None) == (timestamp < 0)
