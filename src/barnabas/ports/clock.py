"""Time as the broker may see it."""

from typing import Protocol


class Clock(Protocol):
    """Two clocks, because the wall clock jumps and the monotonic one has no date."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as Kafka writes them into records."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...
