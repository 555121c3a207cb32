"""Libraries of other languages in groups; each is built, or fetched, when it is first wanted."""

from functools import cache
from typing import Final

from tests.compat.clients.franz_go_client import FranzGoClient
from tests.compat.clients.java_program import SMALL, java_command
from tests.compat.clients.node_modules_cache import node_command
from tests.compat.group_member import Way


def _java() -> list[str]:
    return java_command("GroupMember", *SMALL)


@cache
def _kafkajs() -> list[str]:
    return node_command("kafkajs_member.js")


@cache
def _franz_go() -> list[str]:
    return FranzGoClient.command()


JAVA: Final = Way(name="java", command=_java)
JAVA_COOPERATIVE: Final = Way(
    name="java cooperative", command=_java, assignor="cooperative-sticky", cooperative=True
)
JAVA_CONSUMER: Final = Way(
    name="java consumer protocol",
    command=_java,
    protocol="consumer",
    assignor="uniform",
    cooperative=True,
)
JAVA_WAYS: Final = (JAVA, JAVA_COOPERATIVE, JAVA_CONSUMER)

KAFKAJS: Final = Way(name="kafkajs", command=_kafkajs, assignor="RoundRobinAssigner", static=False)

FRANZ_GO_WAYS: Final = (
    Way(name="franz-go", command=_franz_go),
    Way(
        name="franz-go cooperative",
        command=_franz_go,
        assignor="cooperative-sticky",
        cooperative=True,
    ),
    Way(
        name="franz-go consumer protocol",
        command=_franz_go,
        protocol="consumer",
        assignor="range",
        cooperative=True,
        # Its farewell as a static member does not say which one, and Kafka refuses it as well.
        static=False,
    ),
)
