"""Fetches the spans of a task from their leaders, and goes on wherever a broker dies or moves.

An offset moves on only with a batch that is handed on, and nothing is asked for below it: so
whatever happens to brokers and connections, no record comes twice and none is left out.
"""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.spark.cluster.metadata import Node
from barnabas.spark.errors import UnavailableError, UnknownTopicError
from barnabas.spark.places import Span
from barnabas.spark.source.cursors import Cursor, cursors_of
from barnabas.spark.source.lanes import Answered, Lane, code_of
from barnabas.spark.source.leases import leased_links
from barnabas.spark.source.losses import Losses
from barnabas.spark.source.portions import Damage, Examined, Portion, examine
from barnabas.spark.source.probing import next_sound_offset
from barnabas.wire.fetch import FetchPartitionResult

if TYPE_CHECKING:
    from barnabas.spark.cluster.cluster import Cluster
    from barnabas.spark.cluster.links import Links
    from barnabas.spark.source.options import SourceOptions

_BARREN_ANSWERS: Final = 3
"""So many answers in a row, without a record although the broker shows the span's end, mean that
compaction left nothing of it. One is not enough: a broker may answer so while it compacts."""

_SHORT_LOG_S: Final = 30.0
"""How long a log may end before the span does. A new leader needs a moment, at worst the time
after which a dead follower is left out (`replica.lag.time.max.ms`), until it shows its end."""

_EMPTY_PAUSE_S: Final = 0.05
"""A broker that answers nothing at once, instead of waiting for records, is not asked in a rush."""


class Fetcher:
    """The spans of one task, read side by side from each leader that has some of them."""

    def __init__(self, cluster: "Cluster", options: "SourceOptions", spans: Sequence[Span]) -> None:
        self._cluster = cluster
        self._options = options
        self._losses = Losses(fail=options.fail_on_data_loss)
        self._lanes: dict[Node, Lane] = {}
        self._astray = cursors_of(spans)
        self._problem: Exception | None = None
        self._patience = cluster.patience(f"Reading from {options.connection}")
        self._calm = True

    def portions(self) -> Iterator[Portion]:
        """Sound batches as they come; each lane has asked for more before its own are handed on."""
        with leased_links(self._options.connection) as links:
            try:
                while self._astray or self._lanes:
                    self._find_leaders(links)
                    for node, lane in list(self._lanes.items()):
                        yield from self._turn(node, lane)
            finally:
                # Left early, perhaps in the midst of an answer: what is still to come is nobody's.
                for lane in self._lanes.values():
                    lane.broker.close()

    # Who to ask

    def _find_leaders(self, links: "Links") -> None:
        """A lane for every span that has none."""
        if self._problem is not None:
            self._wait_after(self._problem)
        self._problem = None
        cursors, self._astray = self._astray, []
        if not cursors:
            return
        try:
            leaders = self._cluster.leaders({cursor.place for cursor in cursors})
        except UnknownTopicError:
            self._astray = [cursor for cursor in cursors if not self._is_unknown(cursor)]
            return
        by_node: dict[Node, list[Cursor]] = {}
        for cursor in cursors:
            by_node.setdefault(leaders[cursor.place], []).append(cursor)
        for node, theirs in by_node.items():
            try:
                # Once for all of them: that a broker is away may take long to find out.
                if node not in self._lanes:
                    self._lanes[node] = self._lane(links, node)
                self._lanes[node].cursors.extend(theirs)
            except OSError as problem:
                self._lose(theirs, problem)
        for node, lane in list(self._lanes.items()):
            if not lane.is_waiting:
                self._ask(node, lane)

    def _lane(self, links: "Links", node: Node) -> Lane:
        options = self._options
        return Lane(
            links.to(node.server), committed=options.committed, fetch_bytes=options.fetch_bytes
        )

    def _wait_after(self, problem: Exception) -> None:
        if self._calm:
            # Only time in trouble counts, not the time that Spark took for the rows before.
            self._patience.renew()
            self._calm = False
        self._patience.wait_after(problem)
        self._cluster.forget_leaders()

    def _is_unknown(self, cursor: Cursor) -> bool:
        try:
            self._cluster.leaders({cursor.place})
        except UnknownTopicError:
            self._losses.unknown_topic(cursor.place, cursor.offset, cursor.end)
            return True
        return False

    def _lose(self, cursors: Sequence[Cursor], problem: Exception) -> None:
        """Their leader has to be looked for again."""
        self._astray.extend(cursor for cursor in cursors if not cursor.done)
        self._problem = problem

    def _leave(self, node: Node, lane: Lane, problem: Exception) -> None:
        lane.broker.close()
        del self._lanes[node]
        self._lose(lane.cursors, problem)

    # Asking and answers

    def _ask(self, node: Node, lane: Lane) -> None:
        try:
            lane.ask()
        except (OSError, KafkaError, DecodeError) as problem:
            self._leave(node, lane, problem)
            return
        if not lane.is_waiting:
            del self._lanes[node]

    def _turn(self, node: Node, lane: Lane) -> list[Portion]:
        """Take an answer and ask on; what was taken is handed on even if asking on fails."""
        portions: list[Portion] = []
        try:
            answered = lane.receive()
            for cursor, result in answered.results:
                self._take(lane, cursor, result, answered, portions)
        except (OSError, KafkaError, DecodeError) as problem:
            self._leave(node, lane, problem)
            return portions
        if not answered.size and answered.waited_s < _EMPTY_PAUSE_S:
            time.sleep(_EMPTY_PAUSE_S)
        self._ask(node, lane)
        return portions

    def _take(
        self,
        lane: Lane,
        cursor: Cursor,
        result: FetchPartitionResult,
        answered: Answered,
        portions: list[Portion],
    ) -> None:
        code = code_of(result.error)
        if code is ErrorCode.none:
            data = memoryview(result.records or b"")
            examined = examine(data, cursor.offset, cursor.end)
            if examined.batches:
                portions.append(
                    Portion(cursor.place, data, examined.batches, result.aborted or (), cursor.end)
                )
            if data:
                self._move(lane, cursor, examined)
            else:
                self._wait_for_records(cursor, result, answered)
        elif code is ErrorCode.offset_out_of_range:
            self._out_of_range(lane, cursor)
        elif code is ErrorCode.corrupt_message:
            damage = Damage(cursor.offset, "its broker finds its checksum wrong", None)
            self._step_over(lane, cursor, damage)
        else:
            lane.cursors.remove(cursor)
            self._lose([cursor], KafkaError(code, str(cursor.place)))

    def _move(self, lane: Lane, cursor: Cursor, examined: Examined) -> None:
        moved = examined.next_offset > cursor.offset
        if moved:
            sizes = [batch.header.size for batch in examined.batches]
            if sizes:
                covered = examined.batches[-1].header.last_offset + 1 - cursor.offset
                cursor.habit.note(sum(sizes), covered, max(sizes))
            cursor.advance(examined.next_offset)
            self._calm = True
        if examined.damage is not None:
            self._step_over(lane, cursor, examined.damage)
        elif examined.missing_bytes:
            if examined.missing_bytes <= cursor.ask_bytes(self._options.fetch_bytes):
                self._step_over(lane, cursor, Damage(cursor.offset, "it is cut short", None))
            cursor.want(examined.missing_bytes)
        elif not moved:
            raise DecodeError(f"records of {cursor.place} before offset {cursor.offset}")

    # What is not there

    def _wait_for_records(
        self, cursor: Cursor, result: FetchPartitionResult, answered: Answered
    ) -> None:
        committed, fetch_bytes = self._options.committed, self._options.fetch_bytes
        shown = result.last_stable_offset if committed else result.high_watermark
        if answered.size:
            # Others took the room, or this one asked for less than its next batch needs.
            if shown > cursor.offset and answered.size < fetch_bytes // 2:
                cursor.want(min(4 * cursor.ask_bytes(fetch_bytes), fetch_bytes))
            return
        cursor.waited_s += max(answered.waited_s, _EMPTY_PAUSE_S)
        if shown >= cursor.end:
            cursor.barren_answers += not answered.failed
            if cursor.barren_answers >= _BARREN_ANSWERS:
                self._end_barren(cursor)
            return
        patience_s = self._options.poll_timeout_s
        if result.high_watermark < cursor.end:
            if cursor.waited_s >= min(patience_s, _SHORT_LOG_S):
                self._behind_log_end(cursor, result.high_watermark)
        elif cursor.waited_s >= patience_s:
            raise UnavailableError(
                f"{cursor.place} shows no committed record from offset {cursor.offset} on, and "
                f"those up to {cursor.end - 1} were to be read: a transaction has been open for "
                f"{cursor.waited_s:.0f} s (kafkaConsumer.pollTimeoutMs). Wait until it ends; "
                "`barnabas txn list --hanging` tells whether anybody will end it."
            )

    def _end_barren(self, cursor: Cursor) -> None:
        """Nothing is left of the span; unless it is in remote storage (KIP-405).

        Of what can not be got from there in time, too, brokers say neither records nor an error.
        """
        try:
            local = self._cluster.earliest_local([cursor.place])[cursor.place]
        except UnknownTopicError:
            self._losses.unknown_topic(cursor.place, cursor.offset, cursor.end)
            local = cursor.offset
        if local <= cursor.offset:
            cursor.advance(cursor.end)
        elif cursor.waited_s >= self._options.poll_timeout_s:
            raise UnavailableError(
                f"{cursor.place} shows no record from offset {cursor.offset} on: they are in "
                f"remote storage, and were waited for for {cursor.waited_s:.0f} s "
                "(kafkaConsumer.pollTimeoutMs). Look why it is slow, or give its brokers more "
                "time (remote.fetch.max.wait.ms)."
            )

    def _behind_log_end(self, cursor: Cursor, log_end: int) -> None:
        self._losses.behind_log_end(cursor.place, cursor.offset, cursor.end, log_end)
        cursor.advance(cursor.end)

    def _out_of_range(self, lane: Lane, cursor: Cursor) -> None:
        place = cursor.place
        try:
            log_start = self._cluster.earliest([place])[place]
            log_end = self._cluster.latest([place], committed=False)[place]
        except UnknownTopicError:
            self._losses.unknown_topic(place, cursor.offset, cursor.end)
            cursor.advance(cursor.end)
            return
        if log_start > cursor.offset:
            end = min(log_start, cursor.end)
            self._losses.before_log_start(place, cursor.offset, end, log_start)
            cursor.advance(end)
        elif log_end < cursor.offset:
            self._behind_log_end(cursor, log_end)
        else:
            # Who said so has not caught up with what it leads now.
            lane.cursors.remove(cursor)
            self._lose([cursor], KafkaError(ErrorCode.offset_not_available, str(place)))

    def _step_over(self, lane: Lane, cursor: Cursor, damage: Damage) -> None:
        after = cursor.end
        if not self._options.fail_on_data_loss:
            after = damage.after or next_sound_offset(lane, cursor)
        after = min(after, cursor.end)
        told_end = damage.offset + 1 if self._options.fail_on_data_loss else after
        self._losses.damaged(cursor.place, damage.offset, told_end, damage.problem)
        cursor.advance(after)
