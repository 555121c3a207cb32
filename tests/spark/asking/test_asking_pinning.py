"""Each offset from one place: by the numbers, and with real topics and archives."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.asking.asking_world import (
    archive_up_to,
    delete_before,
    delete_topic,
    make_topic,
    write,
)
from tests.spark.source_read.reading_world import new_topic

from barnabas.spark.asking.pinning import Pinned, combine, pin_archive, pin_topic
from barnabas.spark.asking.troubles import AskingError
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import UnknownTopicError
from barnabas.testing import Broker

_OFFSETS = st.lists(st.integers(0, 12), min_size=2, max_size=2).map(sorted).map(tuple)


def offsets(pinned: Pinned, partition: int) -> list[int]:
    parts = (pinned.before, pinned.archived, pinned.after)
    return sorted(each for part in parts for each in range(*part.get(partition, (0, 0))))


@given(
    logs=st.dictionaries(st.integers(0, 2), _OFFSETS),
    archived=st.dictionaries(st.integers(0, 2), _OFFSETS),
)
def test_each_offset_is_in_one_part(
    logs: dict[int, tuple[int, int]], archived: dict[int, tuple[int, int]]
) -> None:
    archived = {number: each for number, each in archived.items() if number in logs}
    pinned = combine("t", logs, archived)
    for number, log in logs.items():
        kept = archived.get(number, (0, 0))
        assert offsets(pinned, number) == sorted({*range(*log), *range(*kept)})
        lost = number in archived and kept[1] < log[0]
        assert any("neither" in note and f"t-{number} " in note for note in pinned.notes) == lost


def cluster(broker: Broker) -> Cluster:
    return cluster_of(
        Connection.from_options({"kafka.bootstrap.servers": broker.bootstrap_servers})
    )


def test_a_topic_and_its_archive(shared_broker: Broker, tmp_path: Path) -> None:
    servers = shared_broker.bootstrap_servers
    topic = new_topic(servers, 2)
    write(servers, topic, [b"x"] * 30)
    write(servers, topic, [b"x"] * 5, partition=1)
    archive_up_to(servers, topic, tmp_path, {0: 20})
    folder = str(tmp_path)
    delete_before(servers, topic, 0, 10)
    pinned = pin_topic(cluster(shared_broker), topic, folder)
    assert (pinned.archived, pinned.after) == ({0: (0, 20)}, {0: (20, 30), 1: (0, 5)})
    assert pinned.notes == ()

    delete_before(servers, topic, 0, 25)
    after = pin_topic(cluster(shared_broker), topic, folder)
    assert after.after[0] == (25, 30)
    assert after.moved_from(pinned)
    (note,) = after.notes
    assert note.startswith(f"Offsets 20 to 24 of {topic}-0 are neither")

    # An archive that was told to go on all the same has it for ever.
    archive_up_to(servers, topic, tmp_path, {0: 30})
    (note,) = pin_topic(cluster(shared_broker), topic, folder).notes
    assert "20 to 24" in note
    assert pin_archive(folder).notes == (note,)


def test_an_archive_that_was_begun_later(shared_broker: Broker, tmp_path: Path) -> None:
    servers = shared_broker.bootstrap_servers
    topic = new_topic(servers)
    write(servers, topic, [b"x"] * 10)
    archive_up_to(servers, topic, tmp_path, {0: 8}, start="4")
    pinned = pin_topic(cluster(shared_broker), topic, str(tmp_path))
    assert (pinned.before, pinned.archived, pinned.after) == (
        {0: (0, 4)},
        {0: (4, 8)},
        {0: (8, 10)},
    )


def test_another_topic_of_the_same_name_is_refused(shared_broker: Broker, tmp_path: Path) -> None:
    servers = shared_broker.bootstrap_servers
    topic = new_topic(servers)
    write(servers, topic, [b"x"] * 10)
    archive_up_to(servers, topic, tmp_path, {0: 10})
    with Broker() as other:
        with pytest.raises(UnknownTopicError):
            pin_topic(cluster(other), topic, None)
        alone = pin_topic(cluster(other), topic, str(tmp_path))
        assert (alone.archived, alone.after) == ({0: (0, 10)}, {})
        assert "only its archive" in alone.notes[0]
        make_topic(other.bootstrap_servers, topic)
        with pytest.raises(AskingError, match="on the cluster"):
            pin_topic(cluster(other), topic, str(tmp_path))
    delete_topic(servers, topic)
    make_topic(servers, topic)
    with pytest.raises(AskingError, match="deleted and made again"):
        pin_topic(cluster(shared_broker), topic, str(tmp_path))
