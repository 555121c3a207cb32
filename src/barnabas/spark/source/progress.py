"""A query's progress as a consumer group's offsets, so that every Kafka tool sees its lag.

Spark tells a source late, and of the last batch never, that a batch is complete. But it asks for
new offsets only when the batch before is complete, and says where that one ended: that is what is
committed, and it covers every trigger but the deprecated Trigger.Once, which asks once: there the
end shows when the query is started again. Progress is for people to see. Spark's checkpoint is
what counts, so nothing here ever fails a query.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place

_PATIENCE_S: Final = 2.0
"""A coordinator that is away must not hold up a query that could go on."""

_AGAIN_S: Final = 5.0
"""Until offsets that were refused are sent once more; new ones are sent at once."""

_log: Final = logging.getLogger("barnabas.spark")


class Progress:
    """Commits offsets to a group, each once."""

    def __init__(self, connection: Connection, group: str | None) -> None:
        self._connection = replace(connection, patience_s=min(_PATIENCE_S, connection.patience_s))
        self._group = group
        self._committed: dict[Place, int] = {}
        self._refused: dict[Place, int] = {}
        self._refused_at = 0.0
        self._said: set[str] = set()

    def reach(self, offsets: Mapping[Place, int]) -> None:
        """Everything before these offsets has been dealt with."""
        if self._group is None or not offsets or self._committed == offsets:
            return
        now = time.monotonic()
        if self._refused == offsets and now - self._refused_at < _AGAIN_S:
            return
        try:
            cluster_of(self._connection).commit_offsets(self._group, offsets)
        except SparkJobError as problem:
            self._refused, self._refused_at = dict(offsets), time.monotonic()
            self._say(str(problem))
        else:
            self._committed, self._refused = dict(offsets), {}

    def _say(self, problem: str) -> None:
        # The same sentence every few seconds would bury all others.
        if problem not in self._said:
            self._said.add(problem)
            _log.warning(
                "The query goes on, but its lag is not to be seen in the group %s: %s",
                self._group,
                problem,
            )
