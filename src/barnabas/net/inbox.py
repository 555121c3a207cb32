"""One connection's received bytes: read into one reusable buffer, cut into frames in place."""

from struct import Struct

from barnabas.model.errors import DecodeError
from barnabas.net.limits import NetLimits

_SIZE = Struct(">i")
_SIZE_BYTES = 4

_GUESS_BYTES = 1024
"""What a frame is taken for while its size has not arrived: most requests are small."""

_WHOLE_READ_BYTES = 64 * 1024
"""A frame that lacks more than this and fills most of the buffer is read up to its own end and not
beyond, so that the next one's start lands at the front and never has to be moved."""


class Inbox:
    """Bytes from `start` to `end` have arrived and are not dispatched yet.

    `goal` is where the begun frame ends, or 0 while that is not known: until `end` is there,
    `next_frame` has nothing to give, and needs not be asked for each piece of a large frame.
    """

    __slots__ = (
        "_base_bytes",
        "_busy_bytes",
        "_frame_bytes_max",
        "_frame_bytes_min",
        "_growth_bytes_max",
        "_view",
        "buffer",
        "end",
        "goal",
        "received",
        "start",
    )

    def __init__(self, limits: NetLimits) -> None:
        self._base_bytes = limits.receive_buffer_bytes
        self._busy_bytes = limits.receive_busy_bytes_max
        self._growth_bytes_max = limits.receive_growth_bytes_max
        self._frame_bytes_min = limits.frame_bytes_min
        self._frame_bytes_max = limits.frame_bytes_max
        self.received = 0
        self._replace(self._base_bytes)

    def _replace(self, capacity: int) -> None:
        self.buffer = bytearray(capacity)
        self._view = memoryview(self.buffer)
        self.start = self.end = self.goal = 0

    def next_frame(self) -> memoryview | None:
        """The next complete frame, without its size, or None. DecodeError for an absurd size."""
        start = self.start
        if self.end - start < _SIZE_BYTES:
            if start == self.end:
                self._rewind()
            return None
        size: int = _SIZE.unpack_from(self.buffer, start)[0]
        if not self._frame_bytes_min <= size <= self._frame_bytes_max:
            raise DecodeError(
                f"a frame of {size} bytes is announced; "
                f"{self._frame_bytes_min} to {self._frame_bytes_max} are allowed"
            )
        start += _SIZE_BYTES
        finish = start + size
        if finish > self.end:
            self.goal = finish
            return None
        self.start = finish
        self.goal = 0
        return self._view[start:finish]

    def _rewind(self) -> None:
        """Everything is dispatched. A read that filled the buffer promises more: be ready."""
        capacity = len(self.buffer)
        if self.end == capacity < self._busy_bytes:
            self._replace(min(2 * capacity, self._busy_bytes))
        self.start = self.end = 0

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        capacity = len(self.buffer)
        if not self.end < self.goal <= capacity:
            self._make_room()
            capacity = len(self.buffer)
        goal = self.goal
        if goal - self.end > _WHOLE_READ_BYTES and 2 * (goal - self.start) > capacity:
            return self._view[self.end : goal]
        return self._view[self.end :]

    def _make_room(self) -> None:
        held = self.end - self.start
        want = self._frame_wanted(held)
        is_full = self.end == len(self.buffer)
        if self.start and (is_full or self.start + want > len(self.buffer)):
            self._move_to_front(held, is_full)
        if self.end == len(self.buffer):
            self._grow(held, want)

    def _move_to_front(self, held: int, was_full: bool) -> None:
        view, start, goal = self._view, self.start, self.goal
        if was_full and len(self.buffer) < self._busy_bytes:
            self._replace(min(2 * len(self.buffer), self._busy_bytes))
        self._view[:held] = view[start : start + held]
        self.start, self.end, self.goal = 0, held, max(0, goal - start)

    def _frame_wanted(self, held: int) -> int:
        """How many bytes the first frame takes with its size, as far as that is known."""
        if held < _SIZE_BYTES:
            return _GUESS_BYTES
        size: int = _SIZE.unpack_from(self.buffer, self.start)[0]
        return _SIZE_BYTES + min(max(size, 0), self._frame_bytes_max)

    def _grow(self, held: int, want: int) -> None:
        """At most double, at most a few megabytes ahead, and not far beyond the frame.

        More than the frame is needed only when a transport delivers although it was paused.
        """
        capacity = held + min(held, self._growth_bytes_max)
        if want > held:
            capacity = min(capacity, max(want, self._busy_bytes))
        view, goal = self._view, self.goal
        self._replace(capacity)
        self._view[:held] = view[:held]
        self.end, self.goal = held, goal

    @property
    def partial(self) -> bool:
        """Whether bytes are held."""
        return self.start != self.end

    def shrink(self) -> None:
        """Give back what a large frame needed, once nothing is held."""
        if len(self.buffer) > self._base_bytes and self.start == self.end:
            self._replace(self._base_bytes)

    def discard(self) -> None:
        """Forget everything held; the connection is closing."""
        self.start = self.end = self.goal = 0
