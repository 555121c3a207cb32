"""Files that are there whole or not at all, also after a crash of the machine.

A file gets its name only after its bytes are on the disk, and the name is on the disk before
anybody is told that it is there.
"""

import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from typing import Final

from barnabas.spark.tables.snapshot import TableDiskError

TEMPORARY_PREFIX: Final = ".barnabas-"
TEMPORARY_SUFFIX: Final = ".tmp"
_LOCK_NAME: Final = ".barnabas-lock"
_NO_LINKS: Final = (
    errno.EPERM,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EMLINK,
    errno.EXDEV,
)
"""How file systems say that a file can have one name only."""
_ATTEMPTS_MAX: Final = 5


def sync_file(path: str) -> None:
    """Returns once the file's bytes are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


sync_folder: Final = sync_file
"""The same for the names in a folder: a folder is opened and synced as a file is."""


def sync_folders_above(path: str) -> None:
    """The names of all folders on the way to a new one; those that are not ours are on the disk."""
    above = os.path.dirname(os.path.abspath(path))
    with contextlib.suppress(PermissionError):
        while True:
            sync_folder(above)
            if above == os.path.dirname(above):
                return
            above = os.path.dirname(above)


def put_if_absent(path: str, content: bytes) -> bool:
    """Make a file that was not there before; False when somebody else has made it.

    Cleaners may take the temporary file of somebody who is at work, since its writer makes another.
    """
    for _ in range(_ATTEMPTS_MAX):
        temporary = write_temporary(os.path.dirname(path), content)
        try:
            return _give_name(temporary, path)
        except FileNotFoundError:
            continue
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    raise TableDiskError(
        f"{path} could not be written, because its temporary file was removed again and again: "
        "let nothing clean up that folder."
    )


def replace(path: str, content: bytes) -> None:
    """Make a file, or put another in its place; readers see the old one or the new one."""
    temporary = write_temporary(os.path.dirname(path), content)
    try:
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_folder(os.path.dirname(path))


def write_temporary(folder: str, content: bytes) -> str:
    """A synced file with a name of its own, that no reader of the folder takes for a real one."""
    temporary = temporary_path(folder)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        # A full disk, mostly: what is left of it would take up room for nothing.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return temporary


def temporary_path(folder: str) -> str:
    """A name in the folder that nobody else uses, and that no reader takes for a real one."""
    return os.path.join(folder, f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")


def is_temporary(name: str) -> bool:
    """Whether a file of this name is what somebody did not get to finish."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)


def _give_name(temporary: str, path: str) -> bool:
    folder = os.path.dirname(path)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise
        # Renaming takes the place of what is there, so all who do it take turns.
        with _turn(folder):
            if os.path.exists(path):
                return False
            os.rename(temporary, path)
    sync_folder(folder)
    return True


@contextlib.contextmanager
def _turn(folder: str) -> Iterator[None]:
    descriptor = os.open(os.path.join(folder, _LOCK_NAME), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def disk_errors(folder: str) -> Iterator[None]:
    """Whatever the disk says, as one sentence about the table."""
    try:
        yield
    except OSError as problem:
        raise disk_error(folder, problem.strerror or str(problem)) from problem


def disk_error(folder: str, reason: str) -> TableDiskError:
    """The sentence about a disk that is full or broken."""
    return TableDiskError(
        f"The table {folder} can not be written or read ({reason}): nothing half-written is "
        "visible in it; make room on the disk or mend its permissions, and run again."
    )
