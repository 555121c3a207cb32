"""The nodes themselves: what a commit would change, decided before anything is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from barnabas.ports.coordination import (
    ANY_VERSION,
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetData,
)
from barnabas.ports.tree_paths import parent_of


@dataclass(frozen=True, slots=True)
class Znode:
    """A node and what the servers keep of it."""

    node: Node
    children: int = 0
    sequence: int = 0
    """How often a child came or went: the number of the next sequential one."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One step of the whole tree: what stands at each changed path from now on (None: nothing)."""

    zxid: int
    session: int
    changes: Mapping[str, Znode | None]
    touched: Mapping[str, None] = field(default_factory=dict)
    """Nodes that came, went or got data, and parents of those that came or went."""


class Tree:
    """One copy of the tree, with everything up to `zxid` done."""

    def __init__(self) -> None:
        self.zxid = 0
        self._nodes: dict[str, Znode] = {"/": Znode(Node(b"", 0))}
        self._below: dict[str, dict[str, None]] = {}

    def get(self, path: str) -> Node | None:
        """The node, or None."""
        found = self._nodes.get(path)
        return None if found is None else found.node

    def children(self, path: str) -> Sequence[str]:
        """Names of the children, sorted."""
        return sorted(self._below.get(path, ()))

    def below(self, path: str) -> Mapping[str, Node]:
        """Every node strictly below, by path."""
        found: dict[str, Node] = {}
        waiting = [path]
        while waiting:
            above = waiting.pop()
            for name in self._below.get(above, ()):
                child = f"{above.rstrip('/')}/{name}"
                found[child] = self._nodes[child].node
                waiting.append(child)
        return dict(sorted(found.items()))

    def owned_by(self, session: int) -> Sequence[str]:
        """The ephemeral nodes of a session."""
        return [path for path, each in self._nodes.items() if each.node.owner == session]

    def decide(self, operations: Sequence[Op], session: int) -> Transaction:
        """What the next transaction would be; raises the error of the first that fails."""
        return _Draft(self._nodes, session, self.zxid + 1).decide(operations)

    def apply(self, transaction: Transaction) -> None:
        """Do what was decided, here or by another copy of the same tree."""
        self.zxid = transaction.zxid
        for path, znode in transaction.changes.items():
            parent, name = parent_of(path), path.rpartition("/")[2]
            if znode is None:
                self._nodes.pop(path, None)
                self._below.get(parent, {}).pop(name, None)
            else:
                self._nodes[path] = znode
                if path != "/":
                    self._below.setdefault(parent, {})[name] = None


class _Draft:
    """Operations one after the other on a tree that stays as it is."""

    def __init__(self, nodes: Mapping[str, Znode], session: int, zxid: int) -> None:
        self._nodes = nodes
        self._session = session
        self._zxid = zxid
        self._changes: dict[str, Znode | None] = {}
        self._touched: dict[str, None] = {}

    def decide(self, operations: Sequence[Op]) -> Transaction:
        for operation in operations:
            match operation:
                case Create():
                    self._create(operation)
                case SetData(path, data, version):
                    znode = self._require(path, version)
                    node = replace(znode.node, data=data, version=znode.node.version + 1)
                    self._put(path, replace(znode, node=node))
                    self._touched[path] = None
                case Delete(path, version):
                    if self._require(path, version).children:
                        raise NotEmptyError(path)
                    self._put(path, None)
                    self._count_child(path, -1)
                case Check(path, version):
                    self._require(path, version)
        return Transaction(self._zxid, self._session, self._changes, self._touched)

    def _create(self, operation: Create) -> None:
        parent = parent_of(operation.path)
        above = self._find(parent)
        if above is None:
            raise NoNodeError(parent)
        path = operation.path + (f"{above.sequence:010}" if operation.sequence else "")
        if self._find(path) is not None:
            raise NodeExistsError(path)
        if above.node.owner:
            raise CoordinationError(f"{parent} is ephemeral and can not have children")
        owner = self._session if operation.ephemeral else 0
        self._put(path, Znode(Node(operation.data, 0, self._zxid, owner)))
        self._count_child(path, +1)

    def _count_child(self, path: str, more: int) -> None:
        parent = parent_of(path)
        above = self._find(parent)
        if above is not None:
            counted = replace(above, children=above.children + more, sequence=above.sequence + 1)
            self._put(parent, counted)
        self._touched[path] = None
        self._touched[parent] = None

    def _require(self, path: str, version: int) -> Znode:
        found = self._find(path)
        if found is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, found.node.version):
            raise BadVersionError(f"{path} has version {found.node.version}, not {version}")
        return found

    def _find(self, path: str) -> Znode | None:
        return self._changes[path] if path in self._changes else self._nodes.get(path)

    def _put(self, path: str, znode: Znode | None) -> None:
        self._changes[path] = znode
