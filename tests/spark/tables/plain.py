"""Tables written without Spark: what the log and its files do can be tried in milliseconds."""

import os
import sys
import uuid
from collections.abc import Callable

from barnabas.spark.tables.files import TableWriter, writing_alone
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.snapshot import Batch, DataFile, Shape, Snapshot

SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"n","type":"long","nullable":true,"metadata":{}},'
    '{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
)
SHAPE = Shape(SCHEMA, ("p",), {"barnabas.owner": "tests"})
FILES_OF_A_BATCH = 3


def new_table(folder: str) -> Snapshot:
    os.makedirs(folder, exist_ok=True)
    return TableLog(folder).create(SHAPE)


def data_file(name: str, rows: int = 1) -> DataFile:
    """Of a file that need not be there: the log does not look."""
    return DataFile(name, 10, 5, rows, {"p": "x"}, {"why": "test"}, {"nullCount": {"n": 0}})


def current(folder: str) -> Snapshot:
    snapshot = TableLog(folder).snapshot()
    assert snapshot is not None
    return snapshot


def write_batch(
    writer: TableWriter, number: int, step: Callable[[], None] = lambda: None
) -> Snapshot:
    """A few real files, published and committed; `step` is called in between."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    base = writer.log.snapshot()
    assert base is not None
    staged = writer.stage()
    os.makedirs(os.path.join(staged, "p=x"))
    files = []
    for _ in range(FILES_OF_A_BATCH):
        step()
        name = f"p=x/{number}-{uuid.uuid4().hex}.parquet"
        path = os.path.join(staged, name)
        pq.write_table(pa.table({"n": [number]}), path)
        files.append(DataFile(name, os.path.getsize(path), 5, 1, {"p": "x"}))
    step()
    writer.publish(staged, {file.path: file.path for file in files})
    step()
    after = writer.log.commit(base, add=files, batch=Batch("app", number), operation="WRITE")
    step()
    return after


def whole_batches(snapshot: Snapshot) -> int:
    """How many batches the table has; AssertionError unless each is there whole and once."""
    numbers = [int(os.path.basename(path).partition("-")[0]) for path in snapshot.files]
    batches = snapshot.transactions.get("app", -1) + 1
    assert sorted(numbers) == sorted(list(range(batches)) * FILES_OF_A_BATCH)
    return batches


def work_until_killed(folder: str, pipe: int, visible: Callable[[str], set[str]]) -> None:
    """The life of a writer: look around, clean up, then batch after batch."""
    try:
        whole_batches(current(folder))
        with writing_alone(folder) as writer:
            snapshot = current(folder)
            assert visible(folder) == set(snapshot.files), "something uncommitted is left"
            assert os.listdir(os.path.join(folder, "_staging")) == ["lock"]
            names = os.listdir(os.path.join(folder, "_delta_log"))
            assert not [name for name in names if name.endswith(".tmp")]
            number = whole_batches(snapshot)
            while True:
                write_batch(writer, number, lambda: _tell(pipe))
                number += 1
    except BaseException as problem:  # noqa: BLE001 - the parent hears of it by the exit code
        print(repr(problem), file=sys.stderr, flush=True)
        os._exit(3)


def _tell(pipe: int) -> None:
    os.write(pipe, b".")
