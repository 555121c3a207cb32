"""What every client is made with, and how a user's arguments become librdkafka's settings."""

import logging
from collections.abc import Mapping
from typing import Any, Final

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
REQUEST_S: Final = 15.0
"""How long a broker has to answer one request."""

ConfigValue = str | int | float | bool
Config = Mapping[str, ConfigValue]
"""Any setting of librdkafka, by its own name; a given one wins over what the client would set."""

LOGGER: Final = logging.getLogger("barnabas.client")
"""What librdkafka has to say (connections lost and found again) goes here, not to stderr."""
LOGGER.addHandler(logging.NullHandler())


def base_config(bootstrap_servers: str, config: Config | None) -> dict[str, Any]:
    """The settings common to producers, consumers and admins, then the user's own."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": "barnabas",
        # As Java's client does: a small request should not wait for another one to keep it company.
        "socket.nagle.disable": True,
        **(config or {}),
    }
