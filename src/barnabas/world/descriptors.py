"""A bounded number of descriptors for any number of open files.

Files beyond the bound are parked: their descriptor is closed, and opened again when the file is
next used. Which one goes is decided by the clock rule: the hand passes over a file that was used
since it last came by.

A parked file has nothing unsynced. Linux tells a failed write-back to those who have the file
open; once nobody has, its inode may leave memory and the error with it, and a later fsync would
succeed without the bytes. So only files whose bytes were synced are parked at once; of the
others the oldest are synced on a thread, well before the bound is reached, and a failure there is
kept and told by every later sync of that file.
"""

import errno
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

logger = logging.getLogger(__name__)

PARKED: Final = 2**31 - 1
"""Stands for a descriptor that can be had again. No process has a descriptor of that number."""

CLOSED: Final = 2**31 - 2
"""Stands for none. (-1 would be a ValueError in places, not EBADF.)"""

OPEN_MAX: Final = 4096
"""How many are open at once, unless told."""

_STEPS_MAX: Final = 64
"""How far the hand goes at once: whoever opens a file waits for it."""

_SYNCED_AT_ONCE: Final = 32
_SYNCERS_MAX: Final = 4
"""Threads that sync files ahead of need. A disk takes several syncs at once."""


class Descriptor(int):
    """An open descriptor, closed as soon as nobody holds it.

    `os.pwrite(file.descriptor, ...)` holds it until the system call returns. Whoever takes it out
    of its file meanwhile, on whatever thread, so neither closes it under the call nor sets its
    number free for another file.
    """

    __slots__ = ()

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:
        try:
            _close(self)
        except OSError as error:
            # Nothing was promised for bytes that were not synced, and a sync has told of others.
            logger.error("closing descriptor %d failed: %s", self, error)


class Parkable(Protocol):
    """A file as its keeper sees it."""

    descriptor: int
    used: bool
    """Set by every use, cleared by the hand that passes by."""
    syncs_running: int
    failure: OSError | None
    """Why what was written can not be synced any more."""
    inode: int

    @property
    def unsynced(self) -> bool:
        """Whether bytes were written, or are being written, that no sync has covered."""
        ...

    def open_anew(self) -> Descriptor:
        """Open the file by its name."""
        ...

    def sync(self) -> None:
        """As of any file."""
        ...


class DescriptorKeeper:
    """Keeps at most `open_max` files open. Any thread may come at any time."""

    def __init__(self, open_max: int = OPEN_MAX) -> None:
        self._open_max = max(2, open_max)
        self._enough = self._open_max - self._open_max // 8 - 1
        """From here on room is made ahead of need, until there is plenty."""
        self._plenty = self._enough - self._open_max // 16
        self._open: OrderedDict[Parkable, None] = OrderedDict()
        self.lock = threading.RLock()
        self._syncers = 0

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, file: Parkable) -> None:
        """Open `file`, which is new: nobody else knows it yet."""
        self._make_room()
        # Outside the lock: a disk may have to be waited for, and the loop may want the lock.
        descriptor = file.open_anew()
        with self.lock:
            self._keep(file, descriptor)

    def reopen(self, file: Parkable) -> int:
        """The descriptor of a file that was found parked; CLOSED if it is closed for good."""
        if file.descriptor != PARKED:
            return file.descriptor
        self._make_room()
        descriptor = file.open_anew()
        if os.fstat(descriptor).st_ino != file.inode:
            # Its folder was renamed, and another file has got its name.
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        with self.lock:
            # Otherwise another thread was quicker, or closed it.
            if file.descriptor == PARKED:
                self._keep(file, descriptor)
            return file.descriptor

    def _keep(self, file: Parkable, descriptor: Descriptor) -> None:
        file.descriptor = descriptor
        file.used = False  # It stands last; only who is used again is passed over.
        self._open[file] = None

    def release(self, file: Parkable) -> None:
        """`file` is closed for good."""
        descriptor = file.descriptor
        with self.lock:
            self._open.pop(file, None)
            file.descriptor = CLOSED
        del descriptor  # Only here it may be closed, which can take long for a removed file.

    # --- making room ---------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Let there be room for one more."""
        if len(self._open) < self._enough:
            return
        with self.lock:
            unsynced = self._walk(_STEPS_MAX, self._enough)
            if unsynced and self._syncers < _SYNCERS_MAX:
                self._syncers += 1
                threading.Thread(
                    target=self._sync_until_enough, name="barnabas-parking", daemon=True
                ).start()
        for _ in range(len(self._open)):
            if len(self._open) < self._open_max:
                return
            with self.lock:
                unsynced = self._walk(_STEPS_MAX, self._open_max)
            for file in unsynced[:1]:
                self._sync_and_park(file)
        # All of them are being synced, or can not be: better one too many than none.

    def _walk(self, steps: int, enough: int) -> list[Parkable]:
        """The hand goes on, and parks what it may, until there is room or `steps` are done.

        If that was in vain: files that only unsynced bytes keep open.
        """
        unsynced: list[Parkable] = []
        for _ in range(min(steps, 2 * len(self._open))):
            if len(self._open) < enough:
                return []
            file = next(iter(self._open))
            if file.used:
                file.used = False
            elif not file.syncs_running and not self._park(file) and file.failure is None:
                unsynced.append(file)
            if file in self._open:
                self._open.move_to_end(file)
            if len(unsynced) >= _SYNCED_AT_ONCE:
                break
        return unsynced

    def _park(self, file: Parkable) -> bool:
        if file.unsynced:
            return False
        descriptor = file.descriptor
        file.inode = os.fstat(descriptor).st_ino
        file.descriptor = PARKED
        if file.unsynced:
            # A write began after the first look, perhaps with the descriptor that was here then.
            file.descriptor = descriptor
            return False
        del self._open[file]
        return True

    def _sync_and_park(self, file: Parkable) -> None:
        try:
            file.sync()
        except OSError as error:
            with self.lock:
                if file not in self._open:
                    return  # Closed since it was chosen: nobody wants it synced any more.
            # It will tell so itself when its owner syncs it; until then it stays open.
            logger.error("syncing a file that is to be parked failed: %s", error)
            return
        with self.lock:
            if file in self._open and not file.syncs_running:
                self._park(file)

    def _sync_until_enough(self) -> None:
        """On a thread of its own: what is not parked because of unsynced bytes gets synced."""
        for _ in range(self._open_max):
            with self.lock:
                unsynced = self._walk(2 * len(self._open), self._plenty)
            if not unsynced:
                break
            for file in unsynced:
                self._sync_and_park(file)
        with self.lock:
            self._syncers -= 1
