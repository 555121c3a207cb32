"""Whose a data directory is: `meta.properties`, as Kafka writes it.

A directory belongs to one broker of one cluster for ever. Another broker that took it for its own
would serve what it was never given, and be believed to have what it never had.
"""

import uuid
from dataclasses import dataclass

from barnabas.log import names
from barnabas.log.store import topic_id_text
from barnabas.model.errors import BarnabasError
from barnabas.ports.entropy import Entropy
from barnabas.ports.files import Files


@dataclass(frozen=True, slots=True)
class Identity:
    """What the file says."""

    node_id: int
    directory_id: str
    cluster_id: str | None = None

    def to_bytes(self) -> bytes:
        """The file's content."""
        lines = ["version=1", f"node.id={self.node_id}", f"directory.id={self.directory_id}"]
        if self.cluster_id is not None:
            lines.append(f"cluster.id={self.cluster_id}")
        return ("\n".join(lines) + "\n").encode()


def load_identity(files: Files, root: str, node_id: int, entropy: Entropy) -> Identity:
    """The directory's identity; a new one where it has none. BarnabasError: it is another's."""
    path = f"{root}/{names.META_PROPERTIES}"
    if not files.exists(path):
        identity = Identity(node_id, topic_id_text(_directory_id(entropy)))
        files.replace(path, identity.to_bytes())
        return identity
    found = properties_of(files.read(path))
    owner = found.get("node.id", found.get("broker.id"))
    is_number = owner is not None and owner.isascii() and owner.isdigit()
    if owner is None or not is_number or not found.get("directory.id"):
        raise BarnabasError(
            f"{path} does not say whose the data directory is: restore it, or choose another "
            "directory (log.dirs, or --data)."
        )
    if int(owner) != node_id:
        raise BarnabasError(
            f"The data directory {root} belongs to broker {owner}, and this is broker {node_id}: "
            f"start it with node.id={owner}, or choose another directory (log.dirs, or --data)."
        )
    return Identity(node_id, found["directory.id"], found.get("cluster.id"))


def keep_cluster(files: Files, root: str, identity: Identity, cluster_id: str) -> None:
    """From now on the directory belongs to that cluster."""
    if identity.cluster_id != cluster_id:
        owned = Identity(identity.node_id, identity.directory_id, cluster_id)
        files.replace(f"{root}/{names.META_PROPERTIES}", owned.to_bytes())


def _directory_id(entropy: Entropy) -> uuid.UUID:
    """None whose short form begins with a dash, which tools take for an option."""
    while True:
        drawn = entropy.uuid()
        if not topic_id_text(drawn).startswith("-"):
            return drawn


def properties_of(data: bytes) -> dict[str, str]:
    """What a file of properties says."""
    lines = data.decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}
