"""kafkajs behind the common port."""

from tests.compat.clients.child import ChildClient
from tests.compat.clients.node_modules_cache import node_command
from tests.compat.port import CODECS, Can


class KafkajsClient(ChildClient):
    """The Node library that most existing services use; headers are a plain object there."""

    name = "kafkajs"
    codecs = CODECS
    can = frozenset(Can) - {
        Can.NULL_HEADER_VALUES,
        Can.DUPLICATE_HEADERS,
        Can.INCREMENTAL_CONFIGS,
        Can.MAX_TIMESTAMP,
        Can.DESCRIBE_LOG_DIRS,
        Can.DESCRIBE_PRODUCERS,
        Can.LIST_CONFIG_RESOURCES,
    }

    @classmethod
    def command(cls) -> list[str]:
        return node_command("kafkajs.js")
