"""What clients have sent, were told, and have read; each word of it is held against the truth."""

from collections import Counter
from collections.abc import Sequence

from barnabas.model.errors import ErrorCode
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.truth import BrokenPromiseError, Truth, demand


class Ledger:
    """Kept by all clients together."""

    def __init__(self) -> None:
        self.truths: dict[TopicPartition, Truth] = {}
        self.promised: dict[TopicPartition, dict[int, bytes]] = {}
        """What was acknowledged, by offset."""
        self.read: dict[TopicPartition, int] = {}
        """How far anybody has read."""
        self.errors: Counter[str] = Counter()
        self.acknowledgements = 0
        self.records_read = 0
        self.read_nearby = 0
        """Offsets that were read at followers."""

    def truth(self, partition: TopicPartition) -> Truth:
        """What is committed there."""
        found = self.truths.get(partition)
        if found is None:
            found = self.truths[partition] = Truth(partition)
        return found

    def sent(self, partition: TopicPartition, values: Sequence[bytes], *, idempotent: bool) -> None:
        """Somebody is about to send these."""
        if idempotent:
            self.truth(partition).once.update(values)

    def refused(self, partition: TopicPartition, code: ErrorCode) -> None:
        """A batch was not acknowledged."""
        self.errors[f"{partition.topic} {code.name}"] += 1

    def acknowledged(self, partition: TopicPartition, offset: int, values: Sequence[bytes]) -> None:
        """A batch was acknowledged: it must be committed, there and then."""
        truth = self.truth(partition)
        self.acknowledgements += 1
        for at, value in enumerate(values, offset):
            there = truth.values.get(at)
            demand(
                there == value,
                "Acknowledged",
                f"{value!r} is acknowledged at {at} of {truth}, where {there!r} is committed "
                f"(of {truth.end})",
            )
            self.promised.setdefault(partition, {})[at] = value

    def has_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Somebody has read a record."""
        truth = self.truth(partition)
        there = truth.values.get(offset)
        if there != value:
            raise BrokenPromiseError(
                f"ConsistentRead: {value!r} was read at {offset} of {truth}, where {there!r} is "
                f"committed (of {truth.end})"
            )
        self.records_read += 1
        self.read[partition] = max(self.read.get(partition, 0), offset + 1)
