"""How long a peer may take: a pure judgement, made at every sweep over the connections."""

from dataclasses import dataclass

from barnabas.net.limits import NetLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One connection as a sweep finds it."""

    received: int
    """Bytes received so far."""
    sent: int
    """Bytes that have left the process so far."""
    requests: int
    """Frames completed so far."""
    partial: bool
    """A frame has begun, and it is the peer that is slow, not we."""
    busy: bool
    """Requests are being worked on."""
    full: bool
    """The peer has more answers to read than we want to hold, or its last ones before the end."""


class Watch:
    """What the sweeps remember of one connection."""

    __slots__ = ("_frame", "_frame_received", "_frame_since", "_last", "_limits", "_quiet_since",
                 "_stuck_since", "quiet")  # fmt: skip

    def __init__(self, limits: NetLimits, now: float) -> None:
        self._limits = limits
        self._last = Sight(received=0, sent=0, requests=0, partial=False, busy=False, full=False)
        self._quiet_since = self._frame_since = self._stuck_since = now
        self._frame_received = 0
        self._frame = -1
        self.quiet = False
        """Whether nothing came or went since the sweep before."""

    def look(self, now: float, sight: Sight) -> str | None:
        """Why the connection should end, or None."""
        last, self._last = self._last, sight
        progress = sight.sent != last.sent
        self.quiet = sight.received == last.received and not progress and not sight.busy
        if not self.quiet:
            self._quiet_since = now
        if progress or not sight.full:
            self._stuck_since = now
        if now - self._stuck_since >= self._limits.outbox_wait_s_max:
            return f"read nothing for {now - self._stuck_since:.0f} s with its answers waiting"
        if self._too_slow(now, sight):
            return f"sent less than {self._limits.frame_rate_bytes_min} bytes a second of a frame"
        if now - self._quiet_since >= self._limits.connection_idle_s_max:
            return f"idle for {now - self._quiet_since:.0f} s"
        return None

    def _too_slow(self, now: float, sight: Sight) -> bool:
        """Judged over windows of `frame_wait_s_max`, so that one burst does not excuse a stall."""
        if not sight.partial or self._frame != sight.requests:
            self._frame = sight.requests if sight.partial else -1
            self._open_window(now, sight)
            return False
        elapsed = now - self._frame_since
        if elapsed < self._limits.frame_wait_s_max:
            return False
        gained = sight.received - self._frame_received
        self._open_window(now, sight)
        return gained < elapsed * self._limits.frame_rate_bytes_min

    def _open_window(self, now: float, sight: Sight) -> None:
        self._frame_since = now
        self._frame_received = sight.received
