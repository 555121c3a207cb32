"""What runs through a cluster while its operator works on it, and whether any of it was harmed.

A plain and an idempotent producer with the retries that librdkafka has by default, a group that
commits what it reads, record by record, and a copier that reads, writes and commits in
transactions. Nobody is told that anything is going to happen.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.chaos.committed import committed
from tests.failover.copying import Copier
from tests.failover.groups import PARTITIONS, Member, OffsetsWatch
from tests.failover.libraries import QUIET
from tests.failover.stage import Brokers, begin_traffic, make_topic, wait_for
from tests.failover.traffic import Traffic

PLAIN: Final = "plain"
COPY: Final = "copy"
GROUP: Final = "readers"
IDEMPOTENT: Final = "confluent-kafka"
_PAUSE_S: Final = 0.04
_END_S: Final = 120.0


class PlainWriter(threading.Thread):
    """Numbers, each to the partition of its remainder; acks and retries as by default."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self.acknowledged: dict[int, tuple[int, float]] = {}
        """By number: its partition, and when that was told."""
        self.failures: list[str] = []
        self.stopping = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": False, "linger.ms": 2} | QUIET
        )

    def run(self) -> None:
        """Until told to stop."""
        while not self.stopping.wait(_PAUSE_S):
            self._producer.produce(
                PLAIN, str(self.sent), partition=self.sent % PARTITIONS, on_delivery=self._told
            )
            self.sent += 1
            self._producer.poll(0)
        left = self._producer.flush(_END_S)
        if left:
            self.failures.append(f"{left} records are not delivered")

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[int(message.value())] = message.partition(), time.monotonic()


class LastingCopier(Copier):
    """Goes on at the end of its source until it is told to stop, and has copied the rest."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, PLAIN, COPY, "copier")
        self.stopping = threading.Event()
        self._at_end: set[int] = set()

    def _take(self, ended: set[int]) -> list[Message]:
        records = []
        for message in self._consumer.consume(20, timeout=0.5):
            error, partition = message.error(), message.partition() or 0
            if error is None:
                records.append(message)
                self._at_end.discard(partition)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(partition)
        if self.stopping.is_set() and not records:
            ended |= self._at_end
        return records

    def _go_back(self) -> None:
        self._at_end.clear()
        super()._go_back()


@dataclass
class Verdict:
    """What came of it all."""

    sent: int
    failures: list[str]
    """Deliveries that failed, and whatever a client was told that it could not get over."""
    lost: int
    repeated: int
    """By the plain producer, which may: it can not know that a record it sends again is there."""
    commits: int
    lost_offsets: list[str]
    copied: int
    aborted: int
    inexact: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """Where writers had to wait for longer than they should."""

    @property
    def is_good(self) -> bool:
        """Whether nobody was harmed."""
        return not (self.lost or any(self._told))

    @property
    def _told(self) -> Sequence[list[str]]:
        return self.failures, self.lost_offsets, self.inexact, self.late

    def tell(self, head: Sequence[str], lines: Sequence[str], out: Path | None) -> int:
        """Print the whole report, and keep it in a file; the code to exit with."""
        text = "\n".join([*head, "", *lines, "", *self.lines(), ""])
        print(text)
        if out is not None:
            out.write_text(text)
        return 0 if self.is_good else 1

    def lines(self) -> list[str]:
        """For people."""
        written = f"{self.sent:,} records written: {len(self.failures)} delivery failures and other"
        again = f"{self.repeated} sent again by the plain producer"
        groups = f"{self.commits:,} offsets committed by the group"
        copies = f"{self.copied:,} records copied in transactions, of which {self.aborted} aborted"
        return [
            f"{written} errors of clients, {self.lost} acknowledged and lost, {again}",
            f"{groups}: {len(self.lost_offsets)} lost or gone back",
            f"{copies} and done again: {len(self.inexact)} differences between source and copy",
            *(f"  {each}" for each in list(itertools.chain(*self._told))[:10]),
        ]


class Load:
    """All clients, at work from the beginning on."""

    def __init__(self, cluster: Brokers) -> None:
        bootstrap = cluster.bootstrap_servers
        self._bootstrap = bootstrap
        make_topic(cluster, PLAIN, PARTITIONS)
        make_topic(cluster, COPY, PARTITIONS)
        self._traffic: Traffic = begin_traffic(cluster, "numbers", [IDEMPOTENT])
        self._writer = PlainWriter(bootstrap)
        self._members = [
            Member(bootstrap, GROUP, PLAIN, settings) for settings in ({}, {"client.id": "second"})
        ]
        self._watch = OffsetsWatch(bootstrap, GROUP, PLAIN, self._members)
        self._copier = LastingCopier(bootstrap)
        for thread in (self._writer, *self._members, self._watch, self._copier):
            thread.start()
        wait_for(lambda: self._copier.copied > 50 and all(each.commits for each in self._members))

    def _commits(self) -> int:
        return sum(each.commits for each in self._members)

    def check_goes_on(self) -> None:
        """Everybody gets further, from now on."""
        self._traffic.wait_for_more()
        copied, commits = self._copier.copied, self._commits()
        for who, more in (
            ("the copier", lambda: self._copier.copied > copied + 20),
            ("the group", lambda: self._commits() > commits + 20),
        ):
            try:
                wait_for(more, _END_S)
            except TimeoutError as error:
                told = [*self._copier.problems, *(each.problems for each in self._members)]
                raise TimeoutError(f"{who} does not go on: {error}; {told}") from error

    def largest_gap_s(self, since: float) -> float:
        """The longest time without an acknowledged write, in any partition of any producer."""
        times: dict[tuple[str, int], list[float]] = {}
        for partition, at in list(self._writer.acknowledged.values()):
            times.setdefault((PLAIN, partition), []).append(at)
        for partition, _, at in list(self._traffic.notes[IDEMPOTENT].acknowledged.values()):
            times.setdefault((IDEMPOTENT, partition), []).append(at)
        now = time.monotonic()
        return max(
            after - before
            for each in times.values()
            for before, after in itertools.pairwise(
                [since, *sorted(at for at in each if at >= since), now]
            )
        )

    def end(self) -> Verdict:
        """Stop writing, let the others come to the end, and compare."""
        problems: list[str] = []
        self._writer.stopping.set()
        self._writer.join(_END_S)
        try:
            self._traffic.end()
        except AssertionError as error:
            problems.append(str(error))
        self._copier.stopping.set()
        _wait_while_it_goes_on(lambda: self._copier.copied, lambda: not self._copier.is_alive())
        if self._copier.is_alive():
            problems.append("the copier does not come to its end")
        source, target = (self._numbers(topic) for topic in (PLAIN, COPY))
        lost_offsets = self._end_group()
        counts = Counter(itertools.chain.from_iterable(source))
        notes = self._traffic.notes[IDEMPOTENT]
        return Verdict(
            sent=self._writer.sent + notes.sent,
            failures=[
                *problems,
                *self._writer.failures,
                *notes.problems,
                *self._copier.problems,
                *(each for member in self._members for each in member.problems),
            ],
            lost=sum(number not in counts for number in self._writer.acknowledged),
            repeated=sum(count - 1 for count in counts.values()),
            commits=self._commits(),
            lost_offsets=lost_offsets,
            copied=self._copier.copied,
            aborted=self._copier.aborted,
            inexact=[
                f"partition {number}: {len(one)} records and {len(other)} in the copy"
                for number, (one, other) in enumerate(zip(source, target, strict=True))
                if one != other
            ],
        )

    def _end_group(self) -> list[str]:
        """Members come to the end; what is committed then is the end, and never went back."""
        ends = self._ends()
        _wait_while_it_goes_on(self._commits, lambda: self._watch.latest == ends)
        late = []
        if self._watch.latest != ends:
            late.append(f"committed is {self._watch.latest}, and the ends are {ends}")
        _stop(*self._members, self._watch)
        return [*late, *self._watch.problems]

    def _ends(self) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "none"} | QUIET)
        try:
            return {
                number: consumer.get_watermark_offsets(TopicPartition(PLAIN, number), 30)[1]
                for number in range(PARTITIONS)
            }
        finally:
            consumer.close()

    def stop(self) -> None:
        """However it went."""
        self._traffic.stop()
        _stop(self._writer, *self._members, self._watch, self._copier)

    def _numbers(self, topic: str) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(PARTITIONS)]
        for message in committed(self._bootstrap, topic, PARTITIONS):
            found[message.partition() or 0].append(int(message.value() or b"-1"))
        return found


def _wait_while_it_goes_on(count: Callable[[], int], is_done: Callable[[], bool]) -> None:
    """However long it takes, unless nothing happens for two minutes."""
    last, since = count(), time.monotonic()
    while not is_done() and time.monotonic() - since < _END_S:
        time.sleep(0.1)
        if count() != last:
            last, since = count(), time.monotonic()


def _stop(*threads: PlainWriter | Member | OffsetsWatch | LastingCopier) -> None:
    for each in threads:
        each.stopping.set()
    for each in threads:
        each.join(_END_S)
