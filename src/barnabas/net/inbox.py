"""One connection's received bytes: read into one reusable buffer, cut into frames in place."""

from struct import Struct

from barnabas.model.errors import DecodeError
from barnabas.net.limits import NetLimits

_SIZE = Struct(">i")
_SIZE_BYTES = 4

_GUESS_BYTES = 1024
"""What a frame is taken for while its size has not arrived: most requests are small."""

_WHOLE_READ_BYTES = 64 * 1024
"""A frame that lacks more than this is read up to its own end and not beyond, so that the start
of the next large frame lands at the front of the buffer and never has to be moved."""


class Inbox:
    """Bytes from `start` to `end` have arrived and are not dispatched yet.

    `goal` is where the begun frame ends, or 0 while that is not known: until `end` is there,
    `next_frame` has nothing to give, and needs not be asked for each piece of a large frame.
    """

    __slots__ = (
        "_base_bytes",
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
                self.start = self.end = 0
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

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if not self.end < self.goal <= len(self.buffer):
            self._make_room()
        if self.goal - self.end > _WHOLE_READ_BYTES:
            return self._view[self.end : self.goal]
        return self._view[self.end :]

    def _make_room(self) -> None:
        held = self.end - self.start
        want = self._frame_wanted(held)
        if self.start and (self.start + want > len(self.buffer) or self.end == len(self.buffer)):
            self._view[:held] = self._view[self.start : self.end]
            self.goal = max(0, self.goal - self.start)
            self.start, self.end = 0, held
        if self.end == len(self.buffer):
            self._grow(held, want)

    def _frame_wanted(self, held: int) -> int:
        """How many bytes the first frame takes with its size, as far as that is known."""
        if held < _SIZE_BYTES:
            return _GUESS_BYTES
        size: int = _SIZE.unpack_from(self.buffer, self.start)[0]
        return _SIZE_BYTES + min(max(size, 0), self._frame_bytes_max)

    def _grow(self, held: int, want: int) -> None:
        """At most double, at most a few megabytes ahead, and not beyond the frame.

        More than the frame is needed only when a transport delivers although it was paused.
        """
        capacity = held + min(held, self._growth_bytes_max)
        if want > held:
            capacity = min(capacity, want)
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
