"""The Python libraries in groups: each protocol and kind of rebalance that they offer."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.compat.group_member import Way


def _driver(module: str) -> list[str]:
    return [sys.executable, "-m", f"tests.compat.group_driver_{module}"]


def _command(module: str) -> Callable[[], list[str]]:
    return partial(_driver, module)


CONFLUENT: Final = Way(name="confluent", command=_command("confluent"))
CONFLUENT_COOPERATIVE: Final = Way(
    name="confluent cooperative",
    command=_command("confluent"),
    assignor="cooperative-sticky",
    cooperative=True,
)
CONFLUENT_CONSUMER: Final = Way(
    name="confluent consumer protocol",
    command=_command("confluent"),
    protocol="consumer",
    assignor="uniform",
    cooperative=True,
)
KAFKA_PYTHON: Final = Way(name="kafka-python", command=_command("kafka_python"))
KAFKA_PYTHON_COOPERATIVE: Final = Way(
    name="kafka-python cooperative",
    command=_command("kafka_python"),
    assignor="cooperative-sticky",
    cooperative=True,
)
AIOKAFKA: Final = Way(name="aiokafka", command=_command("aiokafka"))

PYTHON_WAYS: Final = (
    CONFLUENT,
    CONFLUENT_COOPERATIVE,
    CONFLUENT_CONSUMER,
    KAFKA_PYTHON,
    KAFKA_PYTHON_COOPERATIVE,
    AIOKAFKA,
)
