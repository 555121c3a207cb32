"""After power loss a log may end earlier than it did; it never begins later."""

import pytest
from tests.log.conftest import NOW_MS, PLACE, append, batch

from barnabas.config.topic_config import TopicConfig
from barnabas.log.recovery import LogPlace, load_log
from barnabas.sim.files import SimFiles


@pytest.mark.parametrize("seed", range(30))
def test_a_log_that_was_never_synced_begins_where_it_began(seed: int) -> None:
    """Replicas whose log seemed to begin later were taken for complete: all that had been deleted
    before, as it seemed, and their followers deleted it too."""
    files = SimFiles(seed)
    files.make_dirs("data/events-0")
    files.sync_dir("")
    files.sync_dir("data")
    log = load_log(LogPlace(files, "data/events-0", PLACE, TopicConfig()), NOW_MS)
    for value in (b"a", b"b", b"c"):
        append(log, batch(value))
        log.roll(NOW_MS)
    append(log, batch(b"d"))
    after = files.crash()
    again = load_log(LogPlace(after, "data/events-0", PLACE, TopicConfig()), NOW_MS)
    assert again.start_offset == 0
    assert again.segments[0].base_offset == 0
