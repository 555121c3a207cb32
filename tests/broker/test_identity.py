"""Whose a data directory is: refused when it is somebody else's, or nobody can tell."""

import pytest

from barnabas.broker.identity import Identity, keep_cluster, load_identity
from barnabas.model.errors import BarnabasError
from barnabas.sim.entropy import SimEntropy
from barnabas.world.memory import MemoryFiles

PATH = "data/meta.properties"


def directory(content: bytes | None = None) -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs("data")
    if content is not None:
        files.replace(PATH, content)
    return files


def load(files: MemoryFiles, node_id: int = 3) -> Identity:
    return load_identity(files, "data", node_id, SimEntropy(1))


def test_a_new_directory_or_one_from_before_there_was_a_file_becomes_this_brokers() -> None:
    files = directory()
    files.make_dirs("data/events-0")
    first = load(files)
    assert first.cluster_id is None
    assert not first.directory_id.startswith("-")
    assert load(files) == first


def test_the_cluster_is_remembered() -> None:
    files = directory()
    keep_cluster(files, "data", load(files), "abc")
    again = load(files)
    assert again.cluster_id == "abc"
    written = files.read(PATH)
    keep_cluster(files, "data", again, "abc")
    assert files.read(PATH) == written


def test_another_brokers_directory_is_refused_in_one_sentence() -> None:
    files = directory()
    load(files, 3)
    with pytest.raises(BarnabasError, match=r"belongs to broker 3, and this is broker 4: start it"):
        load(files, 4)
    assert load(files, 3).node_id == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00garbage",
        b"version=1\n",
        b"node.id=3\n",
        b"directory.id=abc\n",
        b"node.id=3\ndirectory.id=\n",
        b"node.id=three\ndirectory.id=abc\n",
        "node.id=³\ndirectory.id=abc\n".encode(),
        b"node.id=-3\ndirectory.id=abc\n",
        b"# node.id=3\n# directory.id=abc\n",
    ],
)
def test_a_damaged_file_is_refused_and_left_alone(content: bytes) -> None:
    files = directory(content)
    with pytest.raises(BarnabasError, match="does not say whose the data directory is"):
        load(files)
    assert files.read(PATH) == content


def test_what_kafka_wrote_is_understood() -> None:
    files = directory(
        b"#\n#Tue Nov 14 22:13:20 GMT 2023\n cluster.id = abc\nversion=1\n"
        b"broker.id=3\ndirectory.id=xyz\n"
    )
    assert load(files) == Identity(3, "xyz", "abc")
