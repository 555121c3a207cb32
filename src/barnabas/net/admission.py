"""Who may connect: so many at once, and so many from one address."""

from barnabas.net.limits import NetLimits


class Admission:
    """Counts the places taken."""

    __slots__ = ("_by_address", "limits", "open")

    def __init__(self, limits: NetLimits) -> None:
        self.limits = limits
        self._by_address: dict[str, int] = {}
        self.open = 0

    def enter(self, host: str) -> str | None:
        """Take a place for `host`, or say why there is none."""
        if self.open >= self.limits.connections_max:
            return f"{self.open} connections are open, the most that are allowed"
        taken = self._by_address.get(host, 0)
        if taken >= self.limits.connections_per_address_max and not is_loopback(host):
            return f"{taken} connections from this address are open, the most that are allowed"
        self._by_address[host] = taken + 1
        self.open += 1
        return None

    def leave(self, host: str) -> None:
        """Give back a place that was taken."""
        self.open -= 1
        left = self._by_address[host] - 1
        if left:
            self._by_address[host] = left
        else:
            del self._by_address[host]


def is_loopback(host: str) -> bool:
    """Whether a numeric address is this machine's own."""
    return host == "::1" or host.removeprefix("::ffff:").startswith("127.")
