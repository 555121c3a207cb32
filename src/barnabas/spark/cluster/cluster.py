"""`Cluster`: everything a driver or a task asks a Kafka cluster, over links that stay open."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Final, Literal, TypeVar
from uuid import UUID

from barnabas.link.broker import Broker
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.cluster import configs, groups, offsets
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.cluster.links import Links
from barnabas.spark.cluster.metadata import Metadata, Node, Topic, ask_metadata
from barnabas.spark.cluster.retrying import ASKED_AGAIN, Patience, check, retrying
from barnabas.spark.errors import UnknownTopicError
from barnabas.spark.places import Place, listed
from barnabas.wire.messages import newest_type

__all__ = ["Broker", "Cluster", "Node", "cluster_of"]

T = TypeVar("T")
Kind = Literal["group", "transaction"]
Asked = Iterable[tuple[Place, ErrorCode, T]]
"""What one broker says about the partitions it leads."""

_FIND_COORDINATOR: Final = 10
_KINDS: Final[dict[Kind, int]] = {"group": 0, "transaction": 1}
_UNKNOWN_S: Final = 1.0
"""A topic that was made a moment ago is not known to every broker yet."""


class Cluster:
    """For one thread of one process: `cluster_of` gives it.

    Every question is asked again until `connection.patience_s` is over, then it is a
    SparkJobError in one sentence.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection: Final = connection
        self._links = Links(connection)
        self._nodes: dict[int, Node] = {}
        self._topics: dict[str, Topic] = {}
        self._coordinators: dict[tuple[Kind, str], Node] = {}

    def close(self) -> None:
        """Hang up everywhere. It may be used again, and then opens links again."""
        self._links.close()
        self.forget_leaders()

    # Asking, and asking again

    def retrying(self, what: str, attempt: Callable[[], T]) -> T:
        """What `attempt` returns; called again for lost connections and errors that pass.

        Only for what may be repeated. `what` begins the sentence of an error: "Reading orders-3".
        """
        return retrying(
            what, attempt, limit_s=self.connection.patience_s, between=self.forget_leaders
        )

    def patience(self, what: str) -> Patience:
        """For a loop of its own: `wait_after(problem)`, and `renew()` after each success."""
        return Patience(what, self.connection.patience_s)

    def forget_leaders(self) -> None:
        """After an error: who leads and who coordinates is asked for anew."""
        self._topics.clear()
        self._coordinators.clear()

    # Brokers

    def any_broker(self) -> Broker:
        """A link to some broker. ConnectionError where none can be reached just now."""
        return self._links.any(node.server for node in self._nodes.values())

    def broker(self, node: Node) -> Broker:
        """A link to this broker, kept open. OSError where it can not be reached just now."""
        return self._links.to(node.server)

    def coordinator(self, kind: Kind, key: str) -> Broker:
        """A link to the coordinator of a group or a transactional id."""
        return self.ask_coordinator(
            f"Looking for the coordinator of the {kind} {key}", kind, key, lambda broker: broker
        )

    def ask_coordinator(self, what: str, kind: Kind, key: str, attempt: Callable[[Broker], T]) -> T:
        """What `attempt` makes of the coordinator; as with `retrying`."""
        return self.retrying(what, lambda: attempt(self._coordinator_once(kind, key)))

    def _coordinator_once(self, kind: Kind, key: str) -> Broker:
        node = self._coordinators.get((kind, key))
        if node is None:
            request = newest_type(_FIND_COORDINATOR, "request")
            answer = self.any_broker().ask(
                _FIND_COORDINATOR, request(key_type=_KINDS[kind], coordinator_keys=(key,))
            )
            (found,) = answer.coordinators
            check(found.error_code, found.error_message)
            node = Node(found.node_id, found.host, found.port)
            self._coordinators[kind, key] = node
        return self.broker(node)

    def leaders(self, places: Collection[Place]) -> dict[Place, Node]:
        """Who leads each; from memory, until `forget_leaders`. Waits for elections."""
        known = self._known_leaders(places)
        if known is not None:
            return known
        return self.retrying(
            f"Looking for the leaders of {listed(places)}", lambda: self._leaders_once(places)
        )

    def ask_leaders(
        self, what: str, places: Collection[Place], ask: Callable[[Broker, list[Place]], Asked[T]]
    ) -> dict[Place, T]:
        """What each partition's leader says of it; only those that failed are asked again."""
        found: dict[Place, T] = {}

        def attempt() -> dict[Place, T]:
            by_node: dict[Node, list[Place]] = {}
            missing = [place for place in places if place not in found]
            for place, node in self._leaders_once(missing).items():
                by_node.setdefault(node, []).append(place)
            problems: list[KafkaError] = []
            for node, theirs in by_node.items():
                for place, code, value in ask(self.broker(node), theirs):
                    if code is ErrorCode.none:
                        found[place] = value
                    else:
                        problems.append(KafkaError(code, str(place)))
            if problems:
                raise min(problems, key=lambda problem: problem.code in ASKED_AGAIN)
            lost = [place for place in missing if place not in found]
            if lost:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, listed(lost))
            return found

        return self.retrying(what, attempt)

    def _known_leaders(self, places: Iterable[Place]) -> dict[Place, Node] | None:
        found = {}
        for place in places:
            topic = self._topics.get(place.topic)
            node = None if topic is None else topic.leaders.get(place.partition)
            if node is None or node not in self._nodes:
                return None
            found[place] = self._nodes[node]
        return found

    def _leaders_once(self, places: Collection[Place]) -> dict[Place, Node]:
        known = self._known_leaders(places)
        if known is None:
            self._topics_once({place.topic for place in places}, places)
            known = self._known_leaders(places)
        if known is None:
            raise KafkaError(
                ErrorCode.leader_not_available,
                f"a partition of {listed(places)} has no leader, so check that the brokers which "
                "hold it are up",
            )
        return known

    # What exists

    def topic_names(self, *, internal: bool = True) -> list[str]:
        """Every topic, in order; without Kafka's own (`__consumer_offsets`) if so wished."""
        found = self.retrying("Listing topics", lambda: self._refresh(None)).topics
        return sorted(name for name, topic in found.items() if internal or not topic.internal)

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Fresh from a broker; UnknownTopicError names those that do not exist."""
        return {name: len(topic.leaders) for name, topic in self._described(topics).items()}

    def topic_ids(self, topics: Collection[str]) -> dict[str, UUID]:
        """Those Fetch (from version 13 on) and Produce (13) go by; none before Kafka 2.8."""
        known = {name: self._topics[name] for name in topics if name in self._topics}
        if len(known) < len(set(topics)):
            known = self._described(topics)
        return {name: topic.id for name, topic in known.items() if topic.id is not None}

    def cluster_id(self) -> str | None:
        """To tell whether two connections lead to one cluster."""
        return self.retrying("Asking who the cluster is", lambda: self._refresh(())).cluster_id

    def _described(self, topics: Collection[str]) -> dict[str, Topic]:
        what = f"Asking for the partitions of {', '.join(sorted(topics))}"
        return self.retrying(what, lambda: self._topics_once(topics, ()))

    def _topics_once(self, topics: Collection[str], places: Collection[Place]) -> dict[str, Topic]:
        """Ask about these, and a little longer for those that seem not to exist."""
        until = time.monotonic() + min(_UNKNOWN_S, self.connection.patience_s)
        while True:
            found = self._refresh(topics).topics
            lost = sorted(set(topics) - found.keys())
            beyond = [p for p in places if p.topic in found and not _has(found[p.topic], p)]
            if not lost and not beyond:
                return found
            if time.monotonic() >= until:
                raise self._unknown(lost, beyond, found)
            time.sleep(0.05)

    def _refresh(self, topics: Collection[str] | None) -> Metadata:
        known = ask_metadata(self.any_broker(), topics)
        if not known.nodes:
            raise KafkaError(ErrorCode.broker_not_available, "a broker that is not ready yet")
        self._nodes = known.nodes
        self._topics.update(known.topics)
        return known

    def _unknown(
        self, lost: list[str], beyond: list[Place], found: Mapping[str, Topic]
    ) -> UnknownTopicError:
        if not lost:
            place = beyond[0]
            count = len(found[place.topic].leaders)
            return UnknownTopicError(
                f"There is no partition {place}: {place.topic} has {count} of them, counted from "
                "0. Check the offsets or partitions that were asked for."
            )
        there = sorted(self._refresh(None).topics)
        near = [close for name in lost for close in get_close_matches(name, there, n=2)]
        meant = f" (did you mean {' or '.join(dict.fromkeys(near))}?)" if near else ""
        each = "is no topic" if len(lost) == 1 else "are no topics"
        return UnknownTopicError(
            f"There {each} {', '.join(lost)} at {self.connection}{meant}: check the spelling, or "
            f"make it with `barnabas topic create {lost[0]}`."
        )

    # What source and sink ask; each in a file of its own

    def earliest(self, places: Collection[Place]) -> dict[Place, int]:
        """The first offset that is still kept."""
        return offsets.earliest(self, places)

    def earliest_local(self, places: Collection[Place]) -> dict[Place, int]:
        """The first offset on the leader's own disks: before it lies remote storage (KIP-405)."""
        return offsets.earliest_local(self, places)

    def latest(self, places: Collection[Place], *, committed: bool) -> dict[Place, int]:
        """The next offset that will be given; with `committed`, the last stable offset."""
        return offsets.latest(self, places, committed=committed)

    def at_time(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """The first offset with a timestamp of at least so many milliseconds; None if none has."""
        return offsets.at_time(self, times)

    def stored_bytes(self, places: Collection[Place]) -> dict[Place, int]:
        """What each takes on its leader's disk; without those that may not be asked about."""
        return configs.stored_bytes(self, places)

    def timestamp_types(self, topics: Collection[str]) -> dict[str, str]:
        """CreateTime or LogAppendTime; without the topics that may not be asked about."""
        return configs.timestamp_types(self, topics)

    def commit_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        """As a consumer without membership does: no generation, no member."""
        groups.commit_offsets(self, group, offsets)

    def committed_offsets(
        self, group: str, places: Collection[Place] | None, *, stable: bool
    ) -> dict[Place, tuple[int, str]]:
        """Offset and metadata of what the group has committed, of all places with None.

        `stable` waits for the end of transactions that commit offsets of these places. Brokers
        do so only for places that are named, or that have an offset already.
        """
        return groups.committed_offsets(self, group, places, stable=stable)


def _has(topic: Topic, place: Place) -> bool:
    return place.partition in topic.leaders


class _Own(threading.local):
    """What a thread has opened. A forked child inherits its parent's sockets: never to be used."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.clusters: dict[Connection, Cluster] = {}


_own = _Own()


def cluster_of(connection: Connection) -> Cluster:
    """The cluster behind a connection: one for each thread of each process, links kept open."""
    if _own.pid != os.getpid():
        _own.pid = os.getpid()
        _own.clusters = {}
    found = _own.clusters.get(connection)
    if found is None:
        found = _own.clusters[connection] = Cluster(connection)
    return found
