"""What a new controller finds half done, and does to the end."""

import logging
from collections.abc import Iterator, Mapping

from barnabas.cluster import layout
from barnabas.cluster.loading import Tree, children
from barnabas.ports.coordination import Create, Delete, Op
from barnabas.ports.tree_paths import prefix_of

_log = logging.getLogger(__name__)


def leftovers(tree: Tree) -> list[Op]:
    """What makes the tree whole again: nobody sees a difference.

    Topics that were being made or removed are removed; so are partitions that a topic was about
    to get, and settings and ids of no topic.
    """
    topics = dict(children(tree, layout.TOPICS))
    pending = {name for name, node in topics.items() if layout.is_pending(node.data)}
    whole = {
        name: layout.decode_topic(name, node.data)
        for name, node in topics.items()
        if name not in pending
    }
    ids = {layout.encode_uuid(topic_id) for topic_id, _ in whole.values()}
    noted = {name for name, _ in children(tree, layout.TOPIC_IDS)}
    return [
        *(op for name in sorted(pending) for op in _without(tree, layout.topic_path(name))),
        *_unknown_partitions(tree, {name: len(each) for name, (_, each) in whole.items()}),
        *(
            Delete(layout.topic_config_path(name))
            for name, _ in children(tree, layout.TOPIC_CONFIGS)
            if name not in whole
        ),
        *(Delete(f"{layout.TOPIC_IDS}/{each}") for each in sorted(noted - ids)),
        *(Create(f"{layout.TOPIC_IDS}/{each}") for each in sorted(ids - noted)),
    ]


def _without(tree: Tree, path: str) -> Iterator[Op]:
    """A node and all below it, the lowest first."""
    below = [each for each in tree if each.startswith(prefix_of(path))]
    for each in sorted(below, key=lambda found: (-found.count("/"), found)):
        yield Delete(each)
    yield Delete(path)


def _unknown_partitions(tree: Tree, counts: Mapping[str, int]) -> Iterator[Op]:
    """Partitions that their topic does not know of. What is no partition, none of us has made: it
    is left alone."""
    for path in tree:
        match path.split("/"):
            case ["", "brokers", "topics", topic, "partitions", number] if topic in counts:
                if not (number.isascii() and number.isdecimal()):
                    _log.warning("Others have written to the cluster's store: %s", path)
                elif int(number) >= counts[topic]:
                    yield from _without(tree, path)
