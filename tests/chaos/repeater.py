"""A raw idempotent producer that after each restart sends its last five batches once more."""

import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from tests.chaos import talk
from tests.chaos.journal import Journal, Mark, value_of
from tests.chaos.load import Worker
from tests.chaos.talk import Place

from barnabas.link.sync import Link
from barnabas.wire.produce_client import encode_produce_request, parse_produce_response

_WINDOW: Final = 5
"""What the protocol remembers of a producer."""
_IN_FLIGHT: Final = 3
"""So that of the last five some are always acknowledged, and some often not."""
_RECORDS: Final = 7
_PRODUCE: Final = 0
_VERSION: Final = 12
_PAUSE_S: Final = 0.005


@dataclass
class _Sent:
    """One batch, and where it is if that was ever said."""

    first: int
    batch: bytes
    offset: int | None = None


class Repeater(Worker):
    """Keeps some batches in flight on one connection; the broker must know each repeat again."""

    def __init__(self, name: str, journal: Journal, address: tuple[str, int], place: Place) -> None:
        super().__init__(name, journal)
        self._address = address
        self._place = place
        self._window: deque[_Sent] = deque(maxlen=_WINDOW)
        self._producer: tuple[int, int] | None = None
        self._number = 0
        self.repeated = 0
        """Batches sent again that had been acknowledged."""
        self.resumed = 0
        """Batches sent again of which nobody knew whether they are stored."""

    def work(self) -> None:
        while not self.stopping.is_set():
            try:
                with Link(*self._address, timeout_s=30.0) as link:
                    self._converse(link)
            except OSError:
                time.sleep(_PAUSE_S)  # It is dead, or just dying; the next life is soon.

    def _converse(self, link: Link) -> None:
        if self._producer is None:
            self._producer = talk.new_producer_id(link)
        known = sum(sent.offset is not None for sent in self._window)
        unknown = len(self._window) - known
        self._send(link, list(self._window))
        self.repeated += known
        self.resumed += unknown
        while not self.stopping.is_set():
            fresh = [self._next_batch() for _ in range(_IN_FLIGHT)]
            self._window.extend(fresh)
            self._send(link, fresh)
            time.sleep(_PAUSE_S)

    def _next_batch(self) -> _Sent:
        number, epoch = self._producer or (-1, -1)
        first = self._number
        self._number += _RECORDS
        values = [value_of(Mark(self.name, each)) for each in range(first, self._number)]
        return _Sent(first, talk.batch_of(*values, producer=(number, epoch, first)))

    def _send(self, link: Link, batches: list[_Sent]) -> None:
        """All at once, then their answers."""
        for sent in batches:
            request = talk.produce_request(self._place, sent.batch)
            link.send_frame(_PRODUCE, _VERSION, encode_produce_request(_VERSION, request))
        for sent in batches:
            answer = link.receive_frame()
            response = parse_produce_response(_VERSION, answer.frame, answer.body_at)
            result = response.topics[0].partitions[0]
            if result.error:
                self.journal.complain(f"{self.name}: batch {sent.first} got error {result.error}")
            else:
                self._note(sent, result.base_offset)

    def _note(self, sent: _Sent, offset: int) -> None:
        if sent.offset is not None:
            if sent.offset != offset:
                self.journal.complain(
                    f"{self.name}: batch {sent.first} was at {sent.offset}, then at {offset}"
                )
            return
        sent.offset = offset
        for delta in range(_RECORDS):
            self.journal.acknowledge(
                self._place, offset + delta, Mark(self.name, sent.first + delta)
            )
