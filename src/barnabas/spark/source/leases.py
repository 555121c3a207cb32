"""Connections for fetching: kept open between tasks, but only ever used by one reader at a time.

A reader asks ahead, so an answer of its own may be on its way at any moment: nobody else can ask
anything on that connection, not even the same process for a leader's name.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.spark.cluster.connection import Connection
from barnabas.spark.cluster.links import Links


class _Idle(threading.local):
    """What no reader of this thread uses just now. A forked child leaves its parent's alone."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.links: dict[Connection, list[Links]] = {}


_idle = _Idle()


@contextmanager
def leased_links(connection: Connection) -> Iterator[Links]:
    """Links to the brokers for as long as the block lasts.

    Whoever leaves it with an answer on its way closes that broker's link.
    """
    if _idle.pid != os.getpid():
        _idle.pid = os.getpid()
        _idle.links = {}
    kept = _idle.links.setdefault(connection, [])
    links = kept.pop() if kept else Links(connection)
    try:
        yield links
    finally:
        kept.append(links)
