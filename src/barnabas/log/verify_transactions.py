"""Are a partition's transactions whole, and do its transaction indexes say what was aborted?"""

from collections.abc import Iterator
from typing import NamedTuple

from barnabas.log import names
from barnabas.log.producers import ProducerStates
from barnabas.log.replay import read_marker, replay
from barnabas.log.segment import Segment
from barnabas.log.snapshots import decode_snapshot
from barnabas.log.txn_index import (
    ABORTED_ENTRY_BYTES,
    AbortedTransaction,
    check_aborted,
    decode_aborted,
)
from barnabas.model.errors import DecodeError
from barnabas.ports.files import Files
from barnabas.wire.records.batch import NO_PRODUCER, BatchHeader


class Problem(NamedTuple):
    """Something that is not as it should be, and where."""

    path: str
    position: int
    what: str


class TransactionCheck:
    """Follows all segments of a partition, oldest first.

    An entry is written before its marker: so indexes are read after the log, and say at least as
    much as it does, whoever goes on writing.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._states: ProducerStates | None = None
        self._begins_at = 0
        self._segment: Segment | None = None
        self._aborted: list[AbortedTransaction] = []
        self._markers: set[tuple[int, int]] = set()
        """Producer and offset of those that abort."""

    def begin(self, segment: Segment) -> None:
        """The next segment."""
        if self._states is None:
            self._begins_at = segment.base_offset
            self._states = self._known_at(segment.base_offset)
        self._segment = segment
        self._aborted = []
        self._markers = set()

    def _known_at(self, offset: int) -> ProducerStates:
        """What was open when the partition's oldest segment began, as far as anybody knows."""
        states = ProducerStates()
        path = f"{self._directory}/{names.file_name(offset, names.SNAPSHOT)}"
        try:
            states.restore(decode_snapshot(self._files.read(path), 0).items())
        except (FileNotFoundError, DecodeError):
            return ProducerStates()  # Damage has been told of already.
        return states

    def follow(self, position: int, header: BatchHeader) -> Iterator[Problem]:
        """The next batch, which is sound."""
        segment, states = self._segment, self._states
        if header.producer_id <= NO_PRODUCER or segment is None or states is None:
            return
        path = segment.path(names.LOG)
        who = f"producer {header.producer_id}"
        known = states.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            yield Problem(
                path, position, f"epoch {header.producer_epoch} of {who} after {known.epoch}"
            )
        if known is not None and known.transaction_start >= 0 and not header.is_transactional:
            yield Problem(
                path, position,
                f"a batch of {who} outside its transaction, open from offset "
                f"{known.transaction_start} on",
            )  # fmt: skip
        if header.is_control and header.count:
            try:
                marker = read_marker(segment, position, header)
            except DecodeError as error:
                yield Problem(path, position, f"the control batch ends no transaction: {error}")
                return
            if not marker.committed:
                self._markers.add((header.producer_id, header.base_offset))
        aborted = replay(states, segment, position, header, 0)
        if aborted is not None:
            self._aborted.append(aborted)

    def finish(self, next_offset: int) -> Iterator[Problem]:
        """The segment ends before `next_offset`: does its index tell what was aborted in it?"""
        segment = self._segment
        if segment is None:
            return
        path = segment.path(names.TRANSACTION_INDEX)
        entries: dict[int, AbortedTransaction] = {}
        try:
            for entry in self._entries(path, segment, next_offset):
                entries[entry.last_offset] = entry
        except DecodeError as error:
            yield Problem(path, len(entries) * ABORTED_ENTRY_BYTES, f"it holds {error}")
            return
        for aborted in self._aborted:
            found = entries.pop(aborted.last_offset, None)
            # The beginning of a transaction may have been deleted, or compacted away.
            if (
                found is None
                or found.producer_id != aborted.producer_id
                or found.first_offset > aborted.first_offset
            ):
                yield Problem(path, 0, f"it does not tell of {_named(aborted)}")
        for entry in entries.values():
            # Compaction takes the data of a transaction before it takes the rest.
            is_marked = (entry.producer_id, entry.last_offset) in self._markers
            if entry.first_offset >= self._begins_at and not is_marked:
                yield Problem(path, 0, f"nothing in the log bears out {_named(entry)}")

    def _entries(
        self, path: str, segment: Segment, next_offset: int
    ) -> Iterator[AbortedTransaction]:
        try:
            data = self._files.read(path)
        except FileNotFoundError:
            return
        early = 0
        for entry in check_aborted(decode_aborted(data), segment.base_offset, 2**63 - 1):
            if entry.last_offset < next_offset:
                yield entry
            elif (early := early + 1) > 1:  # The marker of one may be about to be written.
                raise DecodeError(f"markers behind the segment's last offset {next_offset - 1}")


def _named(entry: AbortedTransaction) -> str:
    return (
        f"the aborted transaction of producer {entry.producer_id} from offset "
        f"{entry.first_offset} to {entry.last_offset}"
    )
