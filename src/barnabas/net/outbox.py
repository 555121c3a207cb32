"""One connection's answers: sent in the order of their requests, small ones in one write."""

import asyncio
from collections import deque
from struct import Struct
from typing import cast

from barnabas.model.check import require
from barnabas.ports.exchange import Frames

_SIZE = Struct(">i")
_SIZE_BYTES = 4

_JOIN_BYTES_MAX = 32 * 1024
"""Up to here one copy and a plain write cost no more than a vectored write of the pieces; beyond,
the copy costs more."""


class Slot:
    """One request's place in the order of answers."""

    __slots__ = ("cancellable", "frames", "overlaps", "ready", "size", "task")

    def __init__(
        self,
        task: "asyncio.Future[Frames | None] | None",
        *,
        overlaps: bool,
        cancellable: bool = False,
    ) -> None:
        self.task = task
        self.overlaps = overlaps
        self.cancellable = cancellable
        self.frames: Frames | None = None
        self.size = 0
        self.ready = False

    def ended_well(self) -> bool:
        """Whether the task has an answer to give."""
        task = self.task
        return (
            task is not None and task.done() and not task.cancelled() and task.exception() is None
        )

    def result(self) -> Frames | None:
        """The answer of a task that has ended well."""
        require(self.task is not None, "a slot without a task is ready from the start")
        return cast("asyncio.Future[Frames | None]", self.task).result()


class Outbox:
    """Answers wait in `waiting` behind the first unfinished one, or else are staged for writing."""

    __slots__ = ("_staged", "_staged_bytes", "_transport", "queued_bytes", "waiting", "written")

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self._staged: list[bytes | bytearray | memoryview] = []
        self._staged_bytes = 0
        self.waiting: deque[Slot] = deque()
        self.queued_bytes = 0
        self.written = 0

    def put(self, frames: Frames) -> None:
        """The answer to the latest request, already complete."""
        if not self.waiting:
            self._stage(frames, sum(map(len, frames)))
            return
        slot = Slot(None, overlaps=True)
        self.waiting.append(slot)
        self._complete(slot, frames)

    def reserve(
        self, task: "asyncio.Future[Frames | None]", *, overlaps: bool, cancellable: bool
    ) -> Slot:
        """Keep the latest request's place until `task` is done."""
        slot = Slot(task, overlaps=overlaps, cancellable=cancellable)
        self.waiting.append(slot)
        return slot

    def collect(self, slot: Slot) -> None:
        """`slot`'s task has ended well: stage every answer whose turn has come.

        Others that ended in the same turn of the loop, but whose callbacks have not run yet, are
        taken along, so that they leave in the same write.
        """
        if not slot.ready:
            self._complete(slot, slot.result())
        waiting = self.waiting
        while waiting:
            first = waiting[0]
            if not first.ready:
                if not first.ended_well():
                    return
                self._complete(first, first.result())
            waiting.popleft()
            self.queued_bytes -= first.size
            if first.frames is not None:
                self._stage(first.frames, first.size)

    def _complete(self, slot: Slot, frames: Frames | None) -> None:
        slot.frames = frames
        slot.ready = True
        if frames is not None:
            slot.size = sum(map(len, frames))
            self.queued_bytes += slot.size

    def _stage(self, frames: Frames, size: int) -> None:
        self._staged.append(_SIZE.pack(size))
        self._staged += frames
        self._staged_bytes += _SIZE_BYTES + size
        if self._staged_bytes > _JOIN_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Hand what is staged to the transport."""
        if not self._staged:
            return
        staged, self._staged = self._staged, []
        size, self._staged_bytes = self._staged_bytes, 0
        self.written += size
        if size <= _JOIN_BYTES_MAX:
            self._transport.write(b"".join(staged))
        else:
            self._transport.writelines(staged)

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet, or may not have yet because an earlier answer lacks."""
        return self.queued_bytes + self._transport.get_write_buffer_size()

    @property
    def sent(self) -> int:
        """Bytes that have left the process."""
        return self.written - self._transport.get_write_buffer_size()
