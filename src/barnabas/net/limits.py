"""The limits this room enforces, as one value, so that a test or a config can tighten them."""

from dataclasses import dataclass, replace

from barnabas.model import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class NetLimits:
    """Defaults and reasons: `barnabas.model.limits`, under the same names."""

    frame_bytes_min: int = limits.FRAME_BYTES_MIN
    frame_bytes_max: int = limits.FRAME_BYTES_MAX
    receive_buffer_bytes: int = limits.RECEIVE_BUFFER_BYTES
    receive_busy_bytes_max: int = limits.RECEIVE_BUSY_BYTES_MAX
    receive_growth_bytes_max: int = limits.RECEIVE_GROWTH_BYTES_MAX
    frame_wait_s_max: float = limits.FRAME_WAIT_S_MAX
    frame_rate_bytes_min: int = limits.FRAME_RATE_BYTES_MIN
    connection_idle_s_max: float = limits.CONNECTION_IDLE_S_MAX
    connections_max: int = limits.CONNECTIONS_MAX
    connections_per_address_max: int = limits.CONNECTIONS_PER_ADDRESS_MAX
    requests_in_flight_max: int = limits.REQUESTS_IN_FLIGHT_MAX
    outbox_bytes_max: int = limits.OUTBOX_BYTES_MAX
    outbox_wait_s_max: float = limits.OUTBOX_WAIT_S_MAX

    frames_per_turn_max: int = 256
    """Frames of one connection dispatched before the others get their turn: a read can bring
    a hundred thousand tiny ones."""

    @property
    def sweep_interval_s(self) -> float:
        """How often waits are looked at: enough for the shortest, rarely enough to be free."""
        shortest = min(self.frame_wait_s_max, self.connection_idle_s_max, self.outbox_wait_s_max)
        return min(5.0, shortest / 4)

    def within_descriptors(self, descriptors: int) -> "NetLimits":
        """Fewer connections where the process may open few files; the log needs the other half.

        Out of descriptors, accept() fails for everyone: asyncio logs it hundreds of times a
        second and uvloop may spin, so refusing earlier is the only orderly way.
        """
        return replace(self, connections_max=min(self.connections_max, max(1, descriptors // 2)))
