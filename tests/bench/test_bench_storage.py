"""The benchmark of storage, on a small scale: every figure is there, and nothing is left."""

from pathlib import Path

import pytest
from tests.bench.test_bench_broker import ARGV

from barnabas.bench import frames, partitions, storage
from barnabas.bench.lives import life
from barnabas.bench.load import RefusedError
from barnabas.model.errors import BarnabasError

SERVE_AGAIN = (*ARGV[:2], ARGV[2].replace("os.makedirs(data)", "os.makedirs(data, exist_ok=True)"),
               *ARGV[3:])  # fmt: skip


def test_a_small_run(tmp_path: Path) -> None:
    report = storage.run(
        storage.Options(
            tmp_path, SERVE_AGAIN, gigabytes=0.01, partitions_started=3, partitions_served=40,
            rounds=2, seconds=5.0, volume_bytes=300_000, keep_awake=False,
        )
    )  # fmt: skip
    compared = report.rows[: len(storage.SHAPES)]
    assert [row["what"] for row in compared] == [shape.name for shape in storage.SHAPES]
    for row in compared:
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert len(row["full_rounds_records_per_second"]) == 2
    rest = {row["what"]: row for row in report.rows[len(storage.SHAPES) :]}
    assert list(rest)[:3] == [
        "clean stop, 0.01 GB",
        "clean start, nothing stored",
        "clean start, 0.01 GB stored",
    ]
    assert {"40 partitions made", "each read", "clean start, 40 partitions"} <= set(rest)
    assert all(row["seconds"] > 0 and row["peak_mib"] > 1 for row in rest.values())
    assert "ratio" in report.render()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(BarnabasError, match="choose less with --gigabytes"):
        storage.run(storage.Options(tmp_path, gigabytes=1_000_000))
    with pytest.raises(BarnabasError, match="at least one round"):
        storage.run(storage.Options(tmp_path, rounds=0))
    assert list(tmp_path.iterdir()) == []


def test_a_partition_that_is_not_there_is_not_counted(tmp_path: Path) -> None:
    with life(tmp_path, SERVE_AGAIN) as broker:
        frame = bytearray(frames.fetch("bench-0123456789", bytes_max=1000))
        with pytest.raises(RefusedError, match="error code 3"):
            partitions.ask_each(
                broker.server, frame, frames.FETCH_PARTITION_AT, 3, partitions._fetched
            )
        broker.stop("")
