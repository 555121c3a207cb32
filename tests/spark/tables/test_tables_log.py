"""The log alone: versions, checkpoints, readers who come late, and logs that are not as they
should be."""

import contextlib
import errno
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.spark.tables.plain import SCHEMA, SHAPE, current, data_file, new_table

from barnabas.spark.tables import actions, checkpoints
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.snapshot import (
    Batch,
    BatchIsIn,
    Shape,
    Snapshot,
    TableConflictError,
    TableDiskError,
    TableError,
)


def fill(folder: str, versions: int) -> Snapshot:
    """Each commit adds a file; every second one removes the one before."""
    log = TableLog(folder)
    snapshot = log.snapshot()
    assert snapshot is not None
    for number in range(snapshot.version, snapshot.version + versions):
        gone = [f"p=x/a %{number - 1}.parquet"] if number % 2 else []
        snapshot = log.commit(
            snapshot,
            add=[data_file(f"p=x/a %{number}.parquet")],
            remove=gone,
            batch=Batch("app", number),
            operation="WRITE",
        )
    return snapshot


def same(one: Snapshot | None, other: Snapshot | None) -> bool:
    return one is not None and one == other


def test_versions_and_checkpoints(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert TableLog(folder).snapshot() is None
    assert TableLog(str(tmp_path / "nowhere")).snapshot() is None
    reader = TableLog(folder)
    assert reader.snapshot() is None
    new_table(folder)
    assert same(reader.snapshot(), current(folder))
    early = TableLog(folder)
    early.snapshot()
    snapshot = fill(folder, 45)
    assert snapshot.version == 45
    assert same(reader.snapshot(), snapshot)
    assert same(TableLog(folder).snapshot(), snapshot)
    names = set(os.listdir(tmp_path / "_delta_log"))
    assert {checkpoints.checkpoint_name(20), checkpoints.checkpoint_name(40)} < names
    for version in range(46):
        at = TableLog(folder).snapshot(version)
        assert at is not None
        assert (at.version, len(at.files)) == (version, (version + 1) // 2)
        stranger = DeltaTable(folder, version=version)
        paths = [uri.rpartition("/")[2] for uri in stranger.file_uris()]
        assert sorted(paths) == sorted(path.rpartition("/")[2] for path in at.files)
    assert DeltaTable(folder).transaction_version("app") == 44
    # Without the pointer the folder tells; with one that lies, too.
    pointer = tmp_path / "_delta_log" / checkpoints.POINTER
    for text in (b"", b"[1]", b'{"version": 7}', b'{"version": "x"}'):
        pointer.write_bytes(text)
        assert same(TableLog(folder).snapshot(), snapshot)
    pointer.unlink()
    assert same(TableLog(folder).snapshot(), snapshot)
    # Old versions go; who was behind them reads the checkpoint.
    assert checkpoints.remove_old_versions(str(pointer.parent), kept_min=5, kept_s=0) == 40
    assert same(early.snapshot(), snapshot)
    assert same(TableLog(folder).snapshot(), snapshot)
    assert DeltaTable(folder).version() == 45
    assert len(DeltaTable(folder).file_uris()) == len(snapshot.files)
    for version in (39, 46):
        with pytest.raises(TableError, match=f"has no version {version}: those from 40 to 45"):
            TableLog(folder).snapshot(version)
    # A gap is damage, and not the end.
    (tmp_path / "_delta_log" / checkpoints.version_name(42)).unlink()
    with pytest.raises(TableError, match="is damaged: version 42 is missing"):
        TableLog(folder).snapshot()


def test_tombstones_do_not_stay_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path)
    new_table(folder)
    assert len(fill(folder, 19).removed) == 9
    monkeypatch.setattr(checkpoints, "_TOMBSTONES_KEPT_MS", -1)
    assert len(fill(folder, 1).removed) == 0
    assert len(current(folder).removed) == 0


def test_batches_and_conflicts(tmp_path: Path) -> None:
    folder = str(tmp_path)
    base = new_table(folder)
    with pytest.raises(TableConflictError, match="somebody else has made the table"):
        TableLog(folder).create(SHAPE)
    log = TableLog(folder)
    one = log.commit(base, add=[data_file("p=x/1")], batch=Batch("a", 5), operation="WRITE")
    for base_ in (base, one):
        for number in (5, 4):
            with pytest.raises(BatchIsIn):
                TableLog(folder).commit(base_, batch=Batch("a", number), operation="WRITE")
    # Another application's batch of the same number, on an old base: in the next version.
    two = TableLog(folder).commit(
        base, add=[data_file("p=x/2")], batch=Batch("b", 5), operation="WRITE"
    )
    assert two.version == 2
    assert set(two.files) == {"p=x/1", "p=x/2"}
    with pytest.raises(TableConflictError, match="other rows were committed"):
        TableLog(folder).commit(one, add=[data_file("p=x/3")], operation="MERGE", alone=True)
    three = log.commit(two, remove=["p=x/1"], operation="DELETE")
    with pytest.raises(TableConflictError, match=r"p=x/1 does not count any more"):
        TableLog(folder).commit(two, remove=["p=x/1"], operation="DELETE")
    with pytest.raises(TableConflictError, match=r"p=x/2 is in the table already"):
        TableLog(folder).commit(three, add=[data_file("p=x/2")], operation="WRITE")
    changed = Shape(SCHEMA, ("p",), dict(SHAPE.settings) | {"delta.appendOnly": "true"})
    four = log.commit(three, operation="SET", shape=changed)
    assert four.shape == changed
    assert four.table_id == base.table_id
    with pytest.raises(TableConflictError, match="columns or settings have changed"):
        TableLog(folder).commit(three, add=[data_file("p=x/4")], operation="WRITE")
    with pytest.raises(TableError, match="only takes new rows"):
        log.commit(four, remove=["p=x/2"], operation="DELETE")
    log.commit(
        four, add=[data_file("p=x/5")], remove=["p=x/2"], operation="OPTIMIZE", data_change=False
    )
    assert set(current(folder).files) == {"p=x/5"}


def test_a_table_that_is_made_anew_is_noticed(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    new_table(folder)
    fill(folder, 3)
    reader = TableLog(folder)
    reader.snapshot()
    shutil.rmtree(folder)
    assert reader.snapshot() is None
    new_table(folder)
    reader.snapshot()
    shutil.rmtree(folder)
    new_table(folder)
    assert same(reader.snapshot(), fill(folder, 5)) is False
    assert same(reader.snapshot(), current(folder))


def test_where_files_have_one_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems know no links (none here, so they are taken away)."""

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    folder = str(tmp_path)
    base = new_table(folder)

    def commit(who: int) -> None:
        for number in range(10):
            name = f"p=x/{who}-{number}"
            TableLog(folder).commit(base, add=[data_file(name)], operation="WRITE")

    threads = [threading.Thread(target=commit, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    snapshot = current(folder)
    assert (snapshot.version, len(snapshot.files)) == (30, 30)


def test_a_disk_that_fails_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path)
    base = new_table(folder)
    (tmp_path / "_delta_log" / checkpoints.version_name(1)).mkdir()
    with pytest.raises(TableDiskError, match=r"can not be written or read \(Is a directory\)"):
        TableLog(folder).commit(base, operation="WRITE")


_FEATURES = (
    '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],'
    '"writerFeatures":["deletionVectors","x"]}}'
)
_MAPPED = (
    '{"metaData":{"id":"i","schemaString":"{\\"fields\\":[]}","partitionColumns":[],'
    '"configuration":{"delta.columnMapping.mode":"name"}}}'
)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            _FEATURES,
            "because it needs reader version 3 and writer version 7 .* with deletionVectors, x,",
        ),
        ('{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}', "writer version 4"),
        (
            '{"add":{"path":"a","size":1,"modificationTime":1,"deletionVector":{"x":1}}}',
            "deletion vectors",
        ),
        ('{"add":{"path":"s3://x/y","size":1,"modificationTime":1}}', "outside of its folder"),
        ('{"add":{"path":"../../etc/x","size":1,"modificationTime":1}}', "damaged at _delta_log/"),
        ('{"add":{"path":"a%2f..%2fx","size":1,"modificationTime":1}}', "names no file of it"),
        ('{"add":{"path":"a","size":"1","modificationTime":1}}', "size is no number"),
        ('{"add":{"path":"a","size":1}}', "modificationTime is no number"),
        ('{"remove":{"path":"a"}}\n{"add":{"path":"a","size":1}}', "two actions about file a"),
        ('{"txn":{"appId":"a"}}', "version is no number"),
        ('{"add":[]}', "add is no object"),
        ("[]", "a line is no object"),
        ('{"add":', "a line is no JSON"),
        ("", "it is empty"),
        (
            _MAPPED,
            "mapped to other names",
        ),
        ('{"metaData":{"id":"i","schemaString":"no"}}', "its schema is no JSON"),
        ('{"metaData":{"id":"i","schemaString":"{}"}}', "its schema is no struct"),
        ('{"metaData":{"id":"i","format":{"provider":"orc"}}}', "'orc' and not Parquet"),
    ],
)
def test_foreign_and_damaged_logs(tmp_path: Path, line: str, sentence: str) -> None:
    folder = str(tmp_path)
    new_table(folder)
    (tmp_path / "_delta_log" / checkpoints.version_name(1)).write_text(line + "\n")
    for _ in range(2):
        with pytest.raises(TableError, match=sentence) as raised:
            TableLog(folder).snapshot()
        assert len(str(raised.value).splitlines()) == 1


def test_unknown_actions_and_fields_do_not_matter(tmp_path: Path) -> None:
    folder = str(tmp_path)
    before = new_table(folder)
    (tmp_path / "_delta_log" / checkpoints.version_name(1)).write_text(
        '{"futureAction":{"x":1}}\n\n{"commitInfo":null}\n'
        '{"add":{"path":"a","size":1,"modificationTime":1,"future":2,"stats":"no"}}\n'
        '{"txn":{"appId":"a","version":3,"future":[]}}\n'
    )
    after = current(folder)
    assert set(after.files) == {"a"}
    assert after.rows is None
    assert after.transactions == {"a": 3}
    assert after.shape == before.shape


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    folder = str(tmp_path)
    new_table(folder)
    fill(folder, 20)
    path = tmp_path / "_delta_log" / checkpoints.checkpoint_name(20)
    whole = path.read_bytes()
    for broken in (b"", b"PAR1", whole[:-5], whole[: len(whole) // 2], b"x" * 100):
        path.write_bytes(broken)
        with pytest.raises(TableError, match=r"is damaged at .*20\.checkpoint\.parquet, because"):
            TableLog(folder).snapshot()
    path.write_bytes(whole)
    assert current(folder).version == 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
names = st.sampled_from(["add", "remove", "txn", "metaData", "protocol", "commitInfo", "other"])
FIELDS = """path size modificationTime partitionValues stats tags deletionVector appId version id
    deletionTimestamp schemaString partitionColumns configuration format minReaderVersion
    minWriterVersion readerFeatures"""
fields = st.sampled_from(FIELDS.split())
lines = st.dictionaries(
    names, json_values | st.dictionaries(fields, json_values, max_size=8), max_size=2
).map(lambda action: json.dumps(action).encode())


@settings(max_examples=300, deadline=None)
@given(st.lists(lines | st.binary(max_size=40), max_size=4).map(b"\n".join))
@example(b"[" * 100_000)
@example(b'{"add":{"path":"\\ud800","size":1,"modificationTime":1}}')
@example(b'{"metaData":{"id":"i","schemaString":"{\\"fields\\":[null]}"}}')
def test_any_bytes_are_a_version_or_damage(content: bytes) -> None:
    state = actions.State()
    with contextlib.suppress(actions.DamagedError):
        actions.apply_version(state, content)
        state.snapshot(0)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_log_with_any_change_is_read_or_refused(data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        new_table(folder)
        fill(folder, 2)
        path = os.path.join(folder, "_delta_log", checkpoints.version_name(2))
        with open(path, "rb") as file:
            content = bytearray(file.read())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        with open(path, "wb") as file:
            file.write(content[: data.draw(st.integers(0, len(content)))])
        with contextlib.suppress(TableError):
            assert current(folder).version == 2
