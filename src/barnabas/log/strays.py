"""Whether a folder that nobody wants any more may go: records are removed only when it is certain
that others have them."""

from typing import Final

from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError
from barnabas.log.epochs import NO_EPOCH, LeaderEpochs
from barnabas.ports.files import Files
from barnabas.wire.records.batch import HEADER_BYTES, parse_header

_UNKNOWN: Final = 2**31
"""Later than any epoch."""


def ended_before(files: Files, directory: str, epoch: int) -> bool:
    """Whether everything in the folder was written in leader epochs before `epoch`.

    A move ends with a new leader epoch. A folder that knows of that very epoch, or of a later one,
    was not moved away then: whoever says so knows less than the folder does.
    """
    return max(_noted(files, directory), _written(files, directory)) < epoch


def _noted(files: Files, directory: str) -> int:
    """The latest epoch that the folder's own list has."""
    try:
        return LeaderEpochs.from_bytes(files.read(f"{directory}/{names.EPOCHS}")).latest
    except FileNotFoundError:
        return NO_EPOCH  # A kill may have come first: batches are believed before it anyway.
    except CheckpointError:
        return _UNKNOWN


def _written(files: Files, directory: str) -> int:
    """The latest epoch that a batch was written in. They rise: the last segment has it."""
    paths = [
        f"{directory}/{name}"
        for name in sorted(files.list(directory))
        if names.offset_of(name, names.LOG) is not None
    ]
    filled = [path for path in paths if files.size_of(path)]
    if not filled:
        return NO_EPOCH
    file = files.open_read_only(filled[-1])
    try:
        latest, position, end = NO_EPOCH, 0, file.size()
        while position + HEADER_BYTES <= end:
            header = parse_header(file.pread(HEADER_BYTES, position))
            if header.size < HEADER_BYTES:
                return _UNKNOWN
            latest = max(latest, header.leader_epoch)
            position += header.size
    finally:
        file.close()
    return latest
