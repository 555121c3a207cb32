"""@platformatic/kafka behind the common port."""

from tests.compat.clients.child import ChildClient
from tests.compat.clients.node_modules_cache import node_command
from tests.compat.port import Can


class PlatformaticClient(ChildClient):
    """The newer Node library, which refuses old versions; its zstd needs Node 22."""

    name = "platformatic"
    codecs = ("none", "gzip", "snappy", "lz4")
    # A time before the batch's first, or years after it, is written wrongly by it.
    can = frozenset(Can) - {
        Can.TIMES_OUT_OF_ORDER,
        Can.DESCRIBE_PRODUCERS,
        Can.LIST_CONFIG_RESOURCES,
    }

    @classmethod
    def command(cls) -> list[str]:
        return node_command("platformatic.js")
