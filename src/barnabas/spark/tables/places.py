"""Where tables can be."""

import os

from barnabas.spark.sink.journal import local_path
from barnabas.spark.tables.snapshot import TableError


def local_folder(folder: str) -> str:
    """The absolute path of a table's folder; TableError where it is not on a file system."""
    path = local_path(folder) if folder else None
    if path is None:
        raise TableError(
            f"The table {folder!r} can not be there: tables are folders of this machine or of a "
            "network drive that is mounted here and on all executors, so give it such a path."
        )
    return os.path.realpath(path)
