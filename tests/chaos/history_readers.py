"""Consumers that record what they see: raw ones, which know the end, and librdkafka's."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from tests.chaos.group_asks import OFFSET_FETCH, ask
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place
from tests.chaos.transacting import SOON

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchTopic
from barnabas.wire.records.batch import walk
from barnabas.wire.records.control import ControlType, control_type
from barnabas.wire.records.record import Record, decode_batch

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
_FETCH_BYTES: Final = 4 * 1024 * 1024
_FETCH_VERSION: Final = 12


class RawReader:
    """Reads partitions from offset 0, by raw requests: what it is not given is not there."""

    def __init__(
        self, recorder: Recorder, name: str, places: Sequence[Place],
        isolation: str = READ_COMMITTED,
    ) -> None:  # fmt: skip
        self.recorder = recorder
        self.name = name
        self.isolation = isolation
        self.position = dict.fromkeys(places, 0)
        recorder.note(name, "ok", "assign", [[*place, 0] for place in places])

    def read_to_end(self, link: Link) -> dict[Place, list[Record]]:
        """All that is new, in all partitions."""
        return {place: list(self.read(link, place)) for place in self.position}

    def read(self, link: Link, place: Place) -> Iterator[Record]:
        """What is new in one partition."""
        while True:
            result = self._fetch(link, place)
            before = self.position[place]
            records = self._take(place, result)
            if self.position[place] == before:
                return
            told = [[each.offset, (each.value or b"").decode()] for each in records]
            step = ["poll", *place, told, self.position[place]]
            self.recorder.note(self.name, "ok", "poll", [step], isolation=self.isolation)
            yield from records

    def _fetch(self, link: Link, place: Place) -> FetchPartitionResult:
        part = FetchPartition(place[1], -1, self.position[place], -1, -1, _FETCH_BYTES)
        topic = FetchTopic(place[0], None, [part])
        level = int(self.isolation == READ_COMMITTED)
        request = FetchRequest(-1, -1, 0, 0, _FETCH_BYTES, level, 0, -1, [topic], [])
        result = link.fetch(_FETCH_VERSION, request).topics[0].partitions[0]
        if result.error:
            raise ConnectionError(ErrorCode(result.error).name)
        return result

    def _take(self, place: Place, result: FetchPartitionResult) -> list[Record]:
        """Records of one answer, without those of the transactions it says are aborted."""
        data = bytes(result.records or b"")
        waiting = sorted(result.aborted or (), key=lambda each: each[1], reverse=True)
        aborted: set[int] = set()
        records: list[Record] = []
        first = self.position[place]
        for at, header in walk(data):
            while waiting and waiting[-1][1] <= header.last_offset:
                aborted.add(waiting.pop()[0])
            self.position[place] = header.last_offset + 1
            if header.is_control:
                marker = decode_batch(data, at)[0]
                if control_type(marker) is ControlType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                records += [each for each in decode_batch(data, at) if each.offset >= first]
        return records


class GroupReader:
    """Asks for the committed offsets of a group, stable ones only."""

    def __init__(self, recorder: Recorder, name: str, group: str, places: Sequence[Place]) -> None:
        self.recorder = recorder
        self.name = name
        self.group = group
        self.places = places

    def read(self, link: Link) -> dict[Place, int | None]:
        """What is committed now; ConnectionError when that is not told yet."""
        self.recorder.note(self.name, "invoke", "offset-fetch")
        topics: dict[str, list[int]] = {}
        for topic, partition in self.places:
            topics.setdefault(topic, []).append(partition)
        rows = [{"name": name, "partition_indexes": parts} for name, parts in topics.items()]
        body = {"groups": [{"group_id": self.group, "topics": rows}], "require_stable": True}
        try:
            (told,) = ask(link, OFFSET_FETCH, body).groups
        except Exception:
            self.recorder.note(self.name, "fail", "offset-fetch")
            raise
        found: dict[Place, int | None] = {}
        codes = [
            told.error_code,
            *(row.error_code for each in told.topics for row in each.partitions),
        ]
        if any(code is not ErrorCode.none for code in codes):
            self.recorder.note(self.name, "fail", "offset-fetch")
            raise ConnectionError(str(codes))
        for each in told.topics:
            for row in each.partitions:
                offset = row.committed_offset
                found[each.name, row.partition_index] = None if offset < 0 else offset
        steps = [["offset", self.group, *place, offset] for place, offset in found.items()]
        self.recorder.note(self.name, "ok", "offset-fetch", steps)
        return found


class ClientReader:
    """librdkafka's consumer with an assignment from the start."""

    def __init__(
        self, recorder: Recorder, name: str, places: Sequence[Place], address: str,
        isolation: str = READ_COMMITTED,
    ) -> None:  # fmt: skip
        self.recorder = recorder
        self.name = name
        self.isolation = isolation
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": name,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": isolation,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 20,
                **SOON,
            }
        )
        self._consumer.assign([TopicPartition(*place, 0) for place in places])
        recorder.note(name, "ok", "assign", [[*place, 0] for place in places])

    def poll(self, timeout_s: float = 0.2) -> int:
        """Whatever comes; how many records that were."""
        steps: dict[Place, list[Any]] = {}
        count = 0
        for message in self._consumer.consume(2_000, timeout=timeout_s):
            place = str(message.topic()), int(message.partition() or 0)
            offset = int(message.offset() or 0)
            if _is_at_end(message):
                step = steps.setdefault(place, ["poll", *place, []])
                steps[place] = [*step[:4], offset]
            elif message.error() is None:
                if len(steps.get(place, ())) == 5:  # It was at the end, and there is more now.
                    self._note(steps)
                    steps = {}
                value = (message.value() or b"").decode()
                steps.setdefault(place, ["poll", *place, []])[3].append([offset, value])
                count += 1
        self._note(steps)
        return count

    def _note(self, steps: dict[Place, list[Any]]) -> None:
        if steps:
            isolation = self.isolation
            self.recorder.note(self.name, "ok", "poll", [*steps.values()], isolation=isolation)

    def close(self) -> None:
        """No more of it."""
        self._consumer.close()


def _is_at_end(message: Message) -> bool:
    """The end is told, with its offset; any other error is the client's to get over."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise RuntimeError(f"a consumer can not go on: {error}")
    return False
