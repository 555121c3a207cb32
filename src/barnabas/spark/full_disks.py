"""Full disks: which one it is, whoever met with it and whatever it was called then."""

import os
from collections.abc import Sequence
from typing import Final

from barnabas.spark.deaths import said_by

_FULL: Final = {
    "No space left on device": "is full",
    "Disk quota exceeded": "has no room left in your quota",
    "File too large": "takes no larger files",
}
"""How Linux says it, and through it Java."""
_LITTLE_BYTES: Final = 16 * 1024 * 1024
"""A disk with less than this free is taken for the full one."""
_CAUSES_MAX: Final = 20


def full_disk(error: BaseException, folders: Sequence[str]) -> str | None:
    """Which disk is full; None when that is not what it died of.

    `folders` are those that are written to, but for Spark's scratch files.
    """
    text = _whole_text(error)
    what = next((meaning for sign, meaning in _FULL.items() if sign in text), None)
    if what is None:
        return None
    places = [*folders, os.environ.get("SPARK_LOCAL_DIRS") or "/tmp"]
    full = [folder for folder in places if _free_bytes(folder) < _LITTLE_BYTES] or places
    return (
        f"The disk of {' and of '.join(full)} {what}: nothing half-written can be seen, and it "
        "goes on once there is room."
    )


def _whole_text(error: BaseException) -> str:
    """With its causes: Spark says that a batch failed, and only further down why."""
    texts: list[str] = []
    found: BaseException | None = error
    while found is not None and len(texts) < _CAUSES_MAX:
        texts += [
            said_by(found),
            str(getattr(found, "_desc", "")),
            str(getattr(found, "_stackTrace", "")),
        ]
        found = getattr(found, "_cause", None) or found.__cause__
    return "\n".join(texts)


def _free_bytes(folder: str) -> int:
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
