"""What the output must hold, computed from the input in plain Python, and what it does hold."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.chaos.committed import committed
from tests.chaos.spark.job import COPIES_EVERY

_NAMED_MAX = 5


def expected(values: Iterable[bytes]) -> Iterator[bytes]:
    """The rows for these records: the same computation as the job's, without Spark."""
    for value in values:
        number = int(value.split(b":", 1)[0])
        digest = hashlib.md5(value, usedforsecurity=False).hexdigest()
        for copy in range(1, 3 if number % COPIES_EVERY == 0 else 2):
            yield f"{number}:{copy}:{digest}".encode()


def committed_values(servers: str, topic: str, partitions: int) -> Iterator[bytes]:
    """Every committed value of the topic, up to its end as it is now."""
    for message in committed(servers, topic, partitions):
        yield message.value() or b""


@dataclass(frozen=True)
class Judgement:
    """How the output differs from what it must be."""

    inputs: int
    outputs: int
    missing: Counter[bytes]
    surplus: Counter[bytes]

    @property
    def problems(self) -> list[str]:
        """Nothing, when the output is exact."""
        found = []
        for name, rows in (("missing", self.missing), ("too many", self.surplus)):
            if rows:
                some = ", ".join(repr(each) for each in sorted(rows)[:_NAMED_MAX])
                found.append(f"{rows.total():,} rows {name}, among them {some}")
        return found


def judge(servers: str, source: str, sink: str, partitions: int) -> Judgement:
    """Compare the whole of both topics."""
    inputs = list(committed_values(servers, source, partitions))
    wanted = Counter(expected(inputs))
    found = Counter(committed_values(servers, sink, partitions))
    return Judgement(len(inputs), found.total(), wanted - found, found - wanted)
