"""Consumers in haste: a seek waits behind a fetch, and news of the group behind a heartbeat."""

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
    """A Consumer that asks often."""
    quick = {"fetch.wait.max.ms": 20}
    if options.get("protocol", "classic") == "classic":
        quick["heartbeat.interval.ms"] = 100
    options["config"] = {**quick, **(options.get("config") or {})}
    return Consumer(topics, group, bootstrap_servers, **options)
