"""What Spark tells of a query's batches, as numbers that people look at."""

import json
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.pipelines.status import Offsets, QueryStatus, SourceStatus

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

OBSERVED: Final = "barnabas_rows"
"""The observed metric that counts rows on their way to a sink that does not count them itself."""
_WINDOW_S: Final = 10.0
"""Over which rates are taken; longer when two batches take longer than that."""
_JAVA_OBJECT: Final = re.compile(r"(?:[\w$]+\.)+([\w$]+)@[0-9a-f]+")
_UNTOLD: Final = -1
"""What Spark says of sinks that do not count."""


class Meter:
    """Follows one query through its lives."""

    def __init__(self, status: QueryStatus) -> None:
        self.status = status
        self._seen: tuple[int, str] | None = None
        self._samples: deque[tuple[float, int, int | None]] = deque()
        self._sample(time.monotonic())

    def begin_life(self) -> None:
        """The next query tells its batches from the beginning."""
        self._seen = None

    def look(self, query: "StreamingQuery") -> bool:
        """Take in what is new; whether a batch was finished since the last look."""
        finished = False
        for told in self._unseen(query):
            finished = self._take(told) or finished
        self._rate(time.monotonic())
        return finished

    def _unseen(self, query: "StreamingQuery") -> list[dict[str, Any]]:
        """In the order in which they happened.

        Read from the newest backwards, for each costs a call to Java and Spark keeps a hundred.
        """
        kept: Any = query._jsq.recentProgress()
        new: list[dict[str, Any]] = []
        newest = self._seen
        for place in range(len(kept) - 1, -1, -1):
            each = kept[place]
            key = (int(each.batchId()), str(each.timestamp()))
            if key == self._seen:
                break
            newest = key if not new else newest
            new.append(json.loads(each.json()))
        self._seen = newest
        return new[::-1]

    def _take(self, told: Mapping[str, Any]) -> bool:
        status = self.status
        status.sources = [_source(each) for each in told["sources"]]
        status.lag = _lag(status.sources)
        operators = told.get("stateOperators") or []
        if operators:
            status.state_rows = sum(each["numRowsTotal"] for each in operators)
            status.state_bytes = sum(each["memoryUsedBytes"] for each in operators)
        status.watermark = (told.get("eventTime") or {}).get("watermark", status.watermark)
        # Progress is also told of idle moments, which did not add any batch.
        if "addBatch" not in told.get("durationMs", {}):
            return False
        rows_out = _rows_out(told)
        status.batch, status.batch_at = told["batchId"], told["timestamp"]
        status.batch_ms = told["durationMs"].get("triggerExecution", told.get("batchDuration"))
        status.input_rows = sum(each["numInputRows"] for each in told["sources"])
        status.output_rows = rows_out
        status.late_rows += sum(each.get("numRowsDroppedByWatermark", 0) for each in operators)
        status.batches_total += 1
        status.input_total += status.input_rows
        if rows_out is not None:
            status.output_total = (status.output_total or 0) + rows_out
        return True

    def _sample(self, now_s: float) -> None:
        self._samples.append((now_s, self.status.input_total, self.status.output_total))

    def _rate(self, now_s: float) -> None:
        self._sample(now_s)
        window_s = max(_WINDOW_S, 2 * (self.status.batch_ms or 0) / 1000)
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - window_s:
            self._samples.popleft()
        then_s, rows_in, rows_out = self._samples[0]
        passed_s = now_s - then_s
        if passed_s <= 0 or self.status.batch is None:
            return
        self.status.input_rate = round((self.status.input_total - rows_in) / passed_s, 1)
        if self.status.output_total is not None:
            written = self.status.output_total - (rows_out or 0)
            self.status.output_rate = round(written / passed_s, 1)


def _rows_out(told: Mapping[str, Any]) -> int | None:
    observed = (told.get("observedMetrics") or {}).get(OBSERVED)
    if observed:
        return int(sum(observed.values()))
    counted = int(told["sink"].get("numOutputRows", _UNTOLD))
    return None if counted == _UNTOLD else counted


def _source(told: Mapping[str, Any]) -> SourceStatus:
    end, latest = _offsets(told.get("endOffset")), _offsets(told.get("latestOffset"))
    topics = sorted({**(end or {}), **(latest or {})})
    return SourceStatus(", ".join(topics) or _described(str(told["description"])), end, latest)


def _described(text: str) -> str:
    """A source without offsets; one in Python has no words of its own, only its Java's address."""
    found = _JAVA_OBJECT.fullmatch(text)
    return text if found is None else found[1]


def _offsets(told: object) -> Offsets | None:
    """Of a topic's source; other sources count in other ways."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return None
    if not isinstance(told, dict) or not told:
        return None
    offsets = {str(topic): each for topic, each in told.items() if isinstance(each, dict)}
    numbers = [number for each in offsets.values() for number in each.values()]
    is_of_topics = len(offsets) == len(told) and all(isinstance(each, int) for each in numbers)
    return offsets if is_of_topics else None


def _lag(sources: list[SourceStatus]) -> int | None:
    behind = [count for each in sources for count in _behind(each)]
    return sum(behind) if behind else None


def _behind(source: SourceStatus) -> Iterator[int]:
    for topic, partitions in (source.latest or {}).items():
        for partition, latest in partitions.items():
            read = (source.end or {}).get(topic, {}).get(partition)
            if read is not None:
                yield max(0, latest - read)
