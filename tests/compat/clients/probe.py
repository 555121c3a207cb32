"""The asker of the differential probe: it names each answer and keeps it, refusals too."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.compat.raw import ConnectionGone, Plain, RawConnection

HUNG_UP: Final = {"connection": "closed without an answer"}
SILENT: Final = {"connection": "open, but no answer came"}
ANSWER_WAIT_S: Final = 8.0
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


@dataclass
class Probe:
    """Asks one broker and writes down what it said, by scenario name."""

    bootstrap: str
    answers: dict[str, Any] = field(default_factory=dict)
    _connection: RawConnection | None = None

    def ask(self, name: str, api: str, version: int, body: Plain) -> Plain:
        """Ask and keep the answer; a closed connection is an answer too."""
        if name in self.answers:
            raise AssertionError(f"two scenarios are called {name!r}")
        answer = self.quietly(api, version, body)
        self.answers[name] = {"api": f"{api} v{version}", "answer": answer}
        return answer

    def quietly(self, api: str, version: int, body: Plain) -> Plain:
        """Ask without keeping the answer: for setting the stage."""
        try:
            return self.connection.ask(api, version, body)
        except ConnectionGone:
            self.reconnect()
            return dict(HUNG_UP)
        except TimeoutError:
            self.reconnect()
            return dict(SILENT)

    @property
    def connection(self) -> RawConnection:
        """The connection in use; opened on demand."""
        if self._connection is None:
            self._connection = RawConnection(self.bootstrap, wait_s=ANSWER_WAIT_S)
        return self._connection

    def reconnect(self) -> None:
        """Hang up; the next question opens a connection of its own."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def make_topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic with configs (dots written as underscores); returns its id."""
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [
                {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
            ],
        }
        answer = self.quietly("create_topics", 7, {"topics": [topic], "timeout": 10_000})
        created = answer["topics"][0]
        if created["error_code"] != "NONE":
            raise AssertionError(f"cannot set the stage: {created}")
        self._await_leaders(name, partitions)
        topic_id: str = created["topic_id"]
        return topic_id

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """A Kafka answers the creation before its leaders have taken office."""
        rows = [{"partition_index": n, "timestamp": -1} for n in range(partitions)]
        body = {"replica_id": -1, "topics": [{"name": topic, "partitions": rows}]}
        for _ in range(200):
            answer = self.quietly("list_offsets", 5, body)
            codes = {row["error_code"] for row in answer["topics"][0]["partitions"]}
            if codes == {"NONE"}:
                return
            time.sleep(0.05)
        raise AssertionError(f"{topic} has no leaders: {codes}")

    def produce(self, name: str, topic: str, records: bytes | None, **options: Any) -> Plain:
        """Produce to partition 0 (or `partition`) by topic name, with version 12 and acks=all."""
        body = produce_body(topic, records, **options)
        return self.ask(name, "produce", options.get("version", 12), body)

    def append(self, topic: str, records: bytes) -> None:
        """Produce that must work: for setting the stage."""
        answer = self.quietly("produce", 12, produce_body(topic, records))
        partition = answer["responses"][0]["partition_responses"][0]
        if partition["error_code"] != "NONE":
            raise AssertionError(f"cannot set the stage: {partition}")


def produce_body(topic: str, records: bytes | None, **options: Any) -> Plain:
    """A Produce request for one partition."""
    partition = {"index": options.get("partition", 0), "records": records}
    key = "topic_id" if options.get("version", 12) >= 13 else "name"
    return {
        "acks": options.get("acks", -1),
        "timeout": 10_000,
        "transactional_id": options.get("transactional_id"),
        "topic_data": [{key: topic, "partition_data": [partition]}],
    }


Scenario = Callable[[Probe], None]
