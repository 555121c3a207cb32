"""What other programs find in our tables."""

import os
from typing import Any


def delta_rows(folder: str, version: int | None = None) -> list[dict[str, Any]]:
    """All rows as delta-rs reads them."""
    from deltalake import DeltaTable

    rows: list[dict[str, Any]] = DeltaTable(folder, version=version).to_pyarrow_table().to_pylist()
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: [(name, str(row[name])) for name in sorted(row)])


def visible(folder: str) -> set[str]:
    """What a program finds that just lists the Parquet files of a folder."""
    found = set()
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        for name in names:
            if name.endswith(".parquet"):
                found.add(os.path.relpath(os.path.join(place, name), folder))
    return found
