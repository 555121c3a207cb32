"""Kafka's own Java client behind the common port."""

from tests.compat.clients.child import ChildClient
from tests.compat.clients.java_program import java_command
from tests.compat.port import CODECS, Can


class JavaClient(ChildClient):
    """The client that defines what a Kafka client is."""

    name = "java"
    codecs = CODECS
    can = frozenset(Can)

    @classmethod
    def command(cls) -> list[str]:
        return java_command("Driver", "-Xmx512m", "-XX:+UseSerialGC")
