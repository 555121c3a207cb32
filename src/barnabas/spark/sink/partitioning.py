"""Which partition each row goes to, and the rows in the order of their partitions."""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.sink.options import Partitioner
from barnabas.wire.records.columns import Variable, partitions_by_crc32, partitions_by_murmur2

if TYPE_CHECKING:
    import pyarrow as pa

_HASHES: Final = {"murmur2": partitions_by_murmur2, "crc32": partitions_by_crc32}
_RADIX_MAX: Final = 1 << 16
"""numpy sorts numbers of up to 16 bits without comparing them."""


class Group(NamedTuple):
    """The rows of one partition: `count` of `order` from `first` on (None: of all rows)."""

    place: Place
    order: Any
    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count(), which nobody needs here


class TopicRouter:
    """Sends the rows of one topic to its partitions, for one task.

    Rows without a key go round the partitions in equal runs, however many come at a time: the
    counts of two partitions never differ by more than one.
    """

    def __init__(self, topic: str, partitions: int, partitioner: Partitioner) -> None:
        self.topic: Final = topic
        self.partitions: Final = partitions
        self._hash = _HASHES[partitioner]
        # Tasks that write few rows each would otherwise all begin with the first partition.
        self._turn = random.randrange(partitions)

    def groups(
        self, rows: int, keys: Variable | None, wanted: "pa.Array | None"
    ) -> Iterator[Group]:
        """Every partition with rows for it, in the order they came; `wanted`: a column of them."""
        if self.partitions == 1 and wanted is None:
            yield Group(Place(self.topic, 0), None, 0, rows)
            return
        if wanted is None and keys is None:
            yield from self._runs(rows)
            return
        yield from self._sorted(self._partition_of_each(rows, keys, wanted))

    def _partition_of_each(
        self, rows: int, keys: Variable | None, wanted: "pa.Array | None"
    ) -> Any:
        import numpy as np

        if wanted is not None and not wanted.null_count:
            return self._checked(wanted)
        if keys is None:
            chosen = np.full(rows, -1, dtype=np.int32)
        else:
            # A copy, to be written to: the hash leaves rows without a key open.
            chosen = np.frombuffer(self._hash(keys, rows, self.partitions), dtype=np.int32).copy()
        if wanted is not None:
            given = wanted.is_valid().to_numpy(zero_copy_only=False)
            chosen[given] = self._checked(wanted.drop_null())
        open_rows = np.flatnonzero(chosen < 0)
        if len(open_rows):
            chosen[open_rows] = self._round(len(open_rows))
        return chosen

    def _checked(self, wanted: "pa.Array") -> Any:
        numbers = wanted.to_numpy(zero_copy_only=False)
        if len(numbers):
            least, most = int(numbers.min()), int(numbers.max())
            if least < 0 or most >= self.partitions:
                raise SparkJobError(
                    f"The column partition has {least if least < 0 else most}, but the topic "
                    f"{self.topic} has the partitions 0 to {self.partitions - 1}: change the "
                    "column, or drop it to have the key decide (rows that were read from a topic "
                    "bring the partition that they had there)."
                )
        return numbers

    def _sizes(self, rows: int) -> list[tuple[int, int]]:
        """(partition, how many rows) for `rows` rows without a key; the turn moves on."""
        each, extra = divmod(rows, self.partitions)
        turns = self.partitions if each else extra
        sizes = [
            ((self._turn + turn) % self.partitions, each + (turn < extra)) for turn in range(turns)
        ]
        self._turn = (self._turn + extra) % self.partitions
        return sizes

    def _runs(self, rows: int) -> Iterator[Group]:
        first = 0
        for partition, count in self._sizes(rows):
            yield Group(Place(self.topic, partition), None, first, count)
            first += count

    def _round(self, rows: int) -> Any:
        import numpy as np

        partitions, counts = zip(*self._sizes(rows), strict=True)
        return np.repeat(np.array(partitions, dtype=np.int32), counts)

    def _sorted(self, partition_of_each: Any) -> Iterator[Group]:
        import numpy as np

        if self.partitions <= _RADIX_MAX:
            partition_of_each = partition_of_each.astype(np.uint16)
        order = np.argsort(partition_of_each, kind="stable").astype(np.int32)
        first = 0
        for partition, count in enumerate(np.bincount(partition_of_each).tolist()):
            if count:
                yield Group(Place(self.topic, partition), order, first, count)
                first += count
