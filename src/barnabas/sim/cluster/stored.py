"""What ZooKeeper holds about partitions, and that nobody writes what must not be there."""

from collections.abc import Callable

from barnabas.cluster import layout
from barnabas.cluster.image import NO_LEADER, PartitionState
from barnabas.model.topics import TopicPartition
from barnabas.sim.cluster.truth import demand
from barnabas.sim.zookeeper import Transaction


class StoredStates:
    """Follows each transaction at the moment it is decided."""

    def __init__(self, changed: Callable[[TopicPartition, PartitionState], None]) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self.elections = 0
        self.moves = 0
        self._replicas: dict[str, list[tuple[int, ...]]] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._term = 0
        self._changed = changed

    def committed(self, transaction: Transaction) -> None:
        """One transaction of the ensemble."""
        changes = transaction.changes
        for path, znode in changes.items():
            if znode is None:
                continue
            data = znode.node.data
            match path.split("/"):
                case ["", "brokers", "topics", topic] if data and not layout.is_pending(data):
                    self._replicas[topic] = layout.decode_topic(topic, data)[1]
                case ["", "barnabas", "last_commit"] if data:
                    self._check_term(data)
        for path, znode in changes.items():
            match path.split("/"):
                case ["", "brokers", "topics", topic, "partitions", number, "state"] if znode:
                    partition = TopicPartition(topic, int(number))
                    self._take(partition, path, znode.node.data, znode.node.version)

    def _check_term(self, mark: bytes) -> None:
        """OneControllerWrites: nobody of an earlier term writes after one of a later term has."""
        term = int(mark.split(b"-")[1])
        words = f"a controller of term {term} writes after one of term {self._term}"
        demand(term >= self._term, "OneControllerWrites", words)
        self._term = term

    def _take(self, partition: TopicPartition, path: str, data: bytes, version: int) -> None:
        replicas = self._replicas.get(partition.topic)
        if replicas is None or partition.partition >= len(replicas):
            return
        state = layout.decode_state(path, data, replicas[partition.partition], version)
        self._check(partition, state)
        before = self.states.get(partition)
        if before is None or before.leader_epoch != state.leader_epoch:
            self.elections += 1
        if before is not None and set(before.settled) != set(state.settled):
            self.moves += 1
        self.states[partition] = state
        self._changed(partition, state)

    def _check(self, partition: TopicPartition, state: PartitionState) -> None:
        name = partition.directory
        demand(bool(state.isr), "LeaderInIsr", f"the ISR of {name} is empty")
        demand(
            state.leader in (NO_LEADER, *state.isr),
            "LeaderInIsr",
            f"{state.leader} leads {name} and is not in its ISR {state.isr}",
        )
        strangers = set(state.isr) - set(state.replicas)
        demand(not strangers, "LeaderInIsr", f"{strangers} in the ISR of {name} are no replicas")
        before = self.states.get(partition)
        if before is not None:
            demand(
                state.leader_epoch >= before.leader_epoch,
                "MonotonicEpoch",
                f"{name} goes back from epoch {before.leader_epoch} to {state.leader_epoch}",
            )
            gone = set(before.replicas) - set(state.replicas)
            demand(
                not gone or state.leader_epoch > before.leader_epoch,
                "Fenced",
                f"{gone} of {name} goes in epoch {state.leader_epoch}, in which it was counted on",
            )
        known = self._leaders.setdefault((partition, state.leader_epoch), state.leader)
        demand(
            known == state.leader,
            "SingleLeader",
            f"{known} and {state.leader} lead {name} in epoch {state.leader_epoch}",
        )
