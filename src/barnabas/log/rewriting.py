"""Small files that are written anew as a whole: indexes, snapshots, partition metadata."""

from barnabas.ports.files import Files


def rewrite(files: Files, path: str, data: bytes, *, sync: bool = False) -> None:
    """Make `data` all that the file holds. Not atomic: readers must know a torn one by its look.

    What is left of older content is cut off afterwards, because ext4 writes a file that was cut
    to nothing out to the disk as soon as it is closed, which a recovery of many segments would
    wait for many times.
    """
    file = files.open(path, create=True)
    try:
        file.pwrite(data, 0)
        if file.size() > len(data):
            file.truncate(len(data))
        if sync:
            file.sync()
    finally:
        file.close()
