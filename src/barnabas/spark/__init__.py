"""Topics as DataFrames and back: the data source and sink that Spark finds as `barnabas`.

Knows Spark, Arrow and Kafka's protocol as a client sees it. Does not know any room of the broker:
it talks to a Barnabas, or to any other Kafka, over `link` alone.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.spark.sessions import session, settings_for_jobs
    from barnabas.spark.standalone import StandaloneCluster
    from barnabas.spark.stream_starts import allow_starts_at_once
    from barnabas.spark.supervisor import keep_running
    from barnabas.spark.to_topic import to_topic

__all__ = [
    "StandaloneCluster",
    "allow_starts_at_once",
    "keep_running",
    "session",
    "settings_for_jobs",
    "to_topic",
]

_HOMES: Final = {
    "StandaloneCluster": "standalone",
    "allow_starts_at_once": "stream_starts",
    "keep_running": "supervisor",
    "session": "sessions",
    "settings_for_jobs": "sessions",
    "to_topic": "to_topic",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: every task's process imports this room, too."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


class _Room(ModuleType):
    """`to_topic` is the function, also after somebody has imported the file of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room
