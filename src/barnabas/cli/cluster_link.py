"""A cluster as the operator's commands ask it: any broker that answers, or one of them.

It goes on when brokers die: whoever was heard of is tried in turn.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from barnabas.cli.brokers import Broker, NoAnswerError, check, error_name
from barnabas.cli.client import addresses
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.operating.snapshot import (
    BrokerFacts,
    Moving,
    PartitionFacts,
    Place,
    Snapshot,
    TopicFacts,
)
from barnabas.wire.messages import newest_type

METADATA: Final = 3
DESCRIBE_CONFIGS: Final = 32
DESCRIBE_LOG_DIRS: Final = 35
ALTER_REASSIGNMENTS: Final = 45
LIST_REASSIGNMENTS: Final = 46

ANSWER_S: Final = 5.0
"""How long one broker has: another can be asked instead."""

TOPIC: Final = 2
BROKER: Final = 4
"""What has settings, by the protocol's numbers."""

_TIMEOUT_MS: Final = 15_000
_TRIES: Final = 5
"""So often a look is repeated when moves begin or end in the middle of it."""
_NO_CONTROLLER: Final = (ErrorCode.not_controller, ErrorCode.request_timed_out)
_Answer = TypeVar("_Answer")
_Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Disk:
    """What one broker holds, and whether it takes more."""

    sizes: Mapping[Place, int]
    cordoned: bool


class ClusterLink:
    """Connections to a cluster, made when they are needed, for one thread."""

    def __init__(self, bootstrap: str, answer_s: float = ANSWER_S) -> None:
        self._bootstrap = bootstrap
        self._answer_s = answer_s
        self._addresses: dict[_Address, None] = dict.fromkeys(addresses(bootstrap))
        self._open: dict[_Address, Broker] = {}
        self._brokers: Mapping[int, BrokerFacts] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up everywhere."""
        while self._open:
            self._open.popitem()[1].close()

    # Whom to ask.

    def any(self, ask: Callable[[Broker], _Answer]) -> _Answer:
        """What the first broker says that answers; one that is connected already comes first."""
        problem: NoAnswerError | None = None
        for address in [*self._open, *(each for each in self._addresses if each not in self._open)]:
            try:
                return self.at(address, ask)
            except NoAnswerError as error:
                problem = error
        raise NoAnswerError(
            f"No broker answers at {self._bootstrap}: start one with `barnabas up`, or name "
            "another with --bootstrap."
        ) from problem

    def knows(self, number: int) -> bool:
        """Whether the broker was registered at the last look."""
        return number in self._brokers

    def one(self, number: int, ask: Callable[[Broker], _Answer]) -> _Answer:
        """What this broker says. NoAnswerError: nothing, or it is not registered."""
        facts = self._brokers.get(number)
        if facts is None:
            raise NoAnswerError(f"Broker {number} is not registered.")
        return self.at((facts.host, facts.port), ask)

    def at(self, address: _Address, ask: Callable[[Broker], _Answer]) -> _Answer:
        broker = self._open.get(address)
        if broker is None:
            broker = self._open[address] = Broker(*address, timeout_s=self._answer_s)
        try:
            return ask(broker)
        except BaseException:
            # Also a refusal that is not its fault: a fresh link is cheap, a wrong one is not.
            self._open.pop(address).close()
            raise

    # What it says.

    def metadata(self) -> Snapshot:
        """The cluster without its moves, as the first broker tells it that answers."""
        found = self.any(ask_metadata)
        self._learn(found)
        return found

    def snapshot(self, *, moves_needed: bool = False) -> Snapshot:
        """The same with moves, if there is a controller that tells of them.

        `moves_needed`: NoAnswerError when there is none.
        """
        moving = self._moves(needed=moves_needed)
        found = self.metadata()
        if moving is None:
            return found
        for _ in range(_TRIES):
            # A move that ends between two answers would leave a replica too many.
            before, moving = moving, self._moves(needed=moves_needed)
            if moving is None:
                return found
            if moving == before:
                break
            found = self.metadata()
        return replace(found, moving=moving, moves_known=True)

    def _moves(self, *, needed: bool) -> dict[Place, Moving] | None:
        """The moves under way; None when nobody tells."""
        if not needed:
            # The others would ask the same controller, and make somebody wait as long again.
            self.any(lambda broker: broker.speaks(LIST_REASSIGNMENTS))
        try:
            return self.any(_ask_moves) if needed else self.at(next(iter(self._open)), _ask_moves)
        except NoAnswerError as error:
            if not needed:
                return None
            self.metadata()  # Which tells if nobody answers at all.
            raise NoAnswerError(
                "The cluster has no controller just now that tells which replicas are moving: wait "
                "until `barnabas cluster status` names one, and run this again."
            ) from error

    def snapshots(self) -> dict[int, Snapshot]:
        """The same from every registered broker: some hear of things later than others.

        NoAnswerError when one of them says nothing.
        """
        seen = self.snapshot(moves_needed=True)
        return {
            number: replace(self.one(number, ask_metadata), moving=seen.moving, moves_known=True)
            for number in seen.brokers
        }

    def _learn(self, snapshot: Snapshot) -> None:
        self._brokers = snapshot.brokers
        for each in snapshot.brokers.values():
            self._addresses.setdefault((each.host, each.port))

    def disks(self, brokers: Iterable[int]) -> dict[int, Disk]:
        """What each holds; a broker that does not tell is left out."""
        found = {}
        for number in brokers:
            try:
                found[number] = self.one(number, _ask_disk)
            except NoAnswerError:
                continue
        return found

    def settings(
        self, kind: int, names: Iterable[str], keys: tuple[str, ...]
    ) -> dict[str, dict[str, tuple[str | None, int]]]:
        """Value and source of some keys; a broker's are told by itself only."""
        if kind == BROKER:
            return {
                name: self.one(
                    int(name),
                    lambda broker, name=name: _ask_settings(  # type: ignore[misc]
                        broker, kind, [name], keys
                    ),
                )[name]
                for name in names
            }
        wanted = list(names)
        return self.any(lambda broker: _ask_settings(broker, kind, wanted, keys)) if wanted else {}

    def min_isr(self, topics: Iterable[str]) -> dict[str, int]:
        """`min.insync.replicas` of each topic."""
        key = "min.insync.replicas"
        found = self.settings(TOPIC, topics, (key,))
        return {name: int(values[key][0] or 1) for name, values in found.items() if key in values}


def sizes_of(snapshot: Snapshot, disks: Mapping[int, Disk]) -> dict[Place, int]:
    """Bytes of each partition: its leader's, or the most that anybody has."""
    found = {}
    for place, facts in snapshot.partitions():
        sizes = {each: disks[each].sizes.get(place, 0) for each in facts.replicas if each in disks}
        if sizes:
            found[place] = sizes.get(facts.leader, max(sizes.values()))
    return found


def ask_metadata(broker: Broker) -> Snapshot:
    """Everything that this broker knows by itself; it never makes a topic."""
    answer = broker.ask(
        METADATA,
        newest_type(METADATA, "request")(
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    )
    return Snapshot(
        cluster_id=answer.cluster_id or "",
        controller=answer.controller_id,
        brokers={
            each.node_id: BrokerFacts(each.node_id, each.host, each.port, each.rack)
            for each in answer.brokers
        },
        topics={
            topic.name: TopicFacts(
                str(topic.topic_id),
                {
                    each.partition_index: PartitionFacts(
                        each.leader_id,
                        each.leader_epoch,
                        tuple(each.replica_nodes),
                        tuple(each.isr_nodes),
                    )
                    for each in topic.partitions
                },
            )
            for topic in answer.topics
        },
        moves_known=False,
    )


def _ask_moves(broker: Broker) -> dict[Place, Moving]:
    if not broker.speaks(LIST_REASSIGNMENTS):
        return {}
    answer = broker.ask(
        LIST_REASSIGNMENTS,
        newest_type(LIST_REASSIGNMENTS, "request")(timeout=timeout(), topics=None),
    )
    if answer.error_code in _NO_CONTROLLER:
        raise NoAnswerError(f"There is no controller ({error_name(answer.error_code)}).")
    check("List moves of replicas", answer.error_code)
    return {
        Place(topic.name, each.partition_index): Moving(
            tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def _ask_disk(broker: Broker) -> Disk:
    request = newest_type(DESCRIBE_LOG_DIRS, "request")(topics=None)
    answer = broker.ask(DESCRIBE_LOG_DIRS, request)
    sizes: dict[Place, int] = {}
    for directory in answer.results:
        for topic in directory.topics:
            for each in topic.partitions:
                place = Place(topic.name, each.partition_index)
                sizes[place] = sizes.get(place, 0) + each.partition_size
    cordoned = bool(answer.results) and all(each.is_cordoned for each in answer.results)
    return Disk(sizes, cordoned)


def _ask_settings(
    broker: Broker, kind: int, names: list[str], keys: tuple[str, ...]
) -> dict[str, dict[str, tuple[str | None, int]]]:
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from kio.static.primitive import i8

    resources = tuple(
        DescribeConfigsResource(resource_type=i8(kind), resource_name=name, configuration_keys=keys)
        for name in names
    )
    answer = broker.ask(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources))
    return {
        # A topic that was deleted meanwhile has none.
        each.resource_name: {
            setting.name: (setting.value, setting.config_source) for setting in each.configs
        }
        for each in answer.results
    }


def timeout() -> Any:
    """How long the controller may take, as messages want it."""
    import datetime

    from kio.static.primitive import i32Timedelta

    return i32Timedelta.parse(datetime.timedelta(milliseconds=_TIMEOUT_MS))


def no_such_broker(number: int) -> BarnabasError:
    """What to do about it."""
    return BarnabasError(
        f"There is no broker {number}: `barnabas cluster status` shows those there are."
    )
