"""Whether this broker may act as a leader: as long as its place in the cluster is proven."""


class Lease:
    """Shared by all partitions of a broker, so that a request costs no look at a clock."""

    __slots__ = ("is_held",)

    def __init__(self) -> None:
        self.is_held = True
