"""Which leader epoch began at which offset: how replicas and clients find where logs part."""

from itertools import pairwise

from barnabas.log.checkpoints import CheckpointError, read_rows, write_rows

NO_EPOCH = -1


class LeaderEpochs:
    """Epochs and their start offsets, both rising."""

    __slots__ = ("_entries", "changed")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._entries = entries or []
        self.changed = False
        """Whether there is something the file does not say yet."""

    @classmethod
    def from_bytes(cls, data: bytes) -> "LeaderEpochs":
        """Read `leader-epoch-checkpoint`. Raises CheckpointError when it is damaged."""
        entries = [(int(epoch), int(start)) for epoch, start in read_rows(data, columns=2)]
        for (epoch, start), (next_epoch, next_start) in pairwise(entries):
            if next_epoch <= epoch or next_start < start:
                raise CheckpointError("leader epochs that do not rise")
        return cls(entries)

    def to_bytes(self) -> bytes:
        """The file's content."""
        return write_rows(self._entries)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Epoch and start offset, oldest first."""
        return list(self._entries)

    @property
    def latest(self) -> int:
        """The newest epoch, or -1."""
        return self._entries[-1][0] if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """The first batch of a newer epoch goes to `start_offset`; older epochs change nothing."""
        if epoch < 0 or epoch <= self.latest:
            return
        while self._entries and self._entries[-1][1] >= start_offset:
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        self.changed = True

    def found(self, epoch: int, first: int, last: int) -> None:
        """A batch of that epoch holds the offsets from `first` to `last`. What contradicts it was
        true once: then the log was cut back, and what came after has not been written down."""
        if epoch < 0 or (epoch == self.latest and self._entries[-1][1] <= first):
            return
        kept = [entry for entry in self._entries if entry[0] <= epoch and entry[1] < first]
        later = [entry for entry in self._entries if entry[0] > epoch and entry[1] > last]
        if not kept or kept[-1][0] < epoch:
            kept.append((epoch, first))
        if kept + later != self._entries:
            self._entries = kept + later
            self.changed = True

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written, or -1."""
        found = NO_EPOCH
        for epoch, start in self._entries:
            if start > offset:
                break
            found = epoch
        return found

    def end_offset(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` and the offset where it ended: KIP-101, KIP-279."""
        if not self._entries or epoch < 0:
            return NO_EPOCH, -1
        if epoch == self.latest:
            return epoch, log_end
        if epoch > self.latest:
            return NO_EPOCH, -1
        found = NO_EPOCH
        for known, start in self._entries:
            if known > epoch:
                return (found, start) if found != NO_EPOCH else (epoch, start)
            found = known
        return NO_EPOCH, -1

    def truncate_end(self, end_offset: int) -> None:
        """Forget epochs that began at or after `end_offset`."""
        while self._entries and self._entries[-1][1] >= end_offset:
            self._entries.pop()
            self.changed = True

    def forget_all(self) -> None:
        """There is nothing left that was written in any of them."""
        self.changed = self.changed or bool(self._entries)
        self._entries = []

    def truncate_start(self, start_offset: int) -> None:
        """Forget epochs that ended before `start_offset`; the one it falls in begins there."""
        covered = [entry for entry in self._entries if entry[1] <= start_offset]
        if not covered:
            return
        kept = [(covered[-1][0], start_offset), *self._entries[len(covered) :]]
        if kept != self._entries:
            self._entries = kept
            self.changed = True
