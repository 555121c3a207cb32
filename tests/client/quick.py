"""Consumers that do not keep the broker waiting: a seek or a question waits behind a fetch."""

from collections.abc import Iterable
from typing import Unpack

from barnabas.client import Consumer
from barnabas.client.options import ConsumerOptions


def quick_consumer(
    topics: str | Iterable[str] | None = None,
    group: str | None = None,
    bootstrap_servers: str = "",
    **options: Unpack[ConsumerOptions],
) -> Consumer:
    """A Consumer whose fetches are held for a moment only."""
    options["config"] = {"fetch.wait.max.ms": 20, **(options.get("config") or {})}
    return Consumer(topics, group, bootstrap_servers, **options)
