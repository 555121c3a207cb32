"""What a clean stop leaves behind, so that the next start need not look at what is stored."""

from typing import TYPE_CHECKING

from barnabas.log import names
from barnabas.log.snapshots import remove_stray_snapshots
from barnabas.ports.files import Files

if TYPE_CHECKING:
    from barnabas.log.log import PartitionLog


def save(log: "PartitionLog", files: Files) -> None:
    """Write down what is known of a log whose batches are synced, durably.

    Nothing is written where nothing has changed: there may be thousands of idle logs.
    """
    if log.end_offset == 0 or (log.saved and not log.epochs.changed):
        return
    active = log.segments[-1]
    active.write_indexes(sync=True)
    log.aborted.sync(active.base_offset)
    log.write_snapshot(sync=True)
    if log.epochs.changed:
        files.replace(f"{log.directory}/{names.EPOCHS}", log.epochs.to_bytes())
    else:
        files.sync_dir(log.directory)
    remove_stray_snapshots(files, log.directory, log.segments)
