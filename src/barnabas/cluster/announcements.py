"""What a change node says: which parts of the tree a commit has changed.

It names what to read again and carries no news itself, so it does not matter how late it is read,
or how many are read at once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.cluster import layout
from barnabas.cluster.changes import Write
from barnabas.model.errors import BarnabasError, KafkaError
from barnabas.model.topics import check_topic_name
from barnabas.ports.coordination import Create

KEPT: Final = 1000
"""Change nodes that stay. A broker that has missed more reads everything anew."""

SPARE: Final = 100
"""Old ones are removed when there are so many of them, not one by one."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Parts of the tree. `by` names the commit, for the one who made it."""

    topics: frozenset[str] = frozenset()
    """To be read as a whole."""
    partitions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Of other topics: only the state of these."""
    brokers: bool = False
    configs: frozenset[str] = frozenset()
    by: str = ""

    def __bool__(self) -> bool:
        return bool(self.topics or self.partitions or self.brokers or self.configs)

    def operation(self) -> Create:
        """What a commit carries to be heard of."""
        document = {
            "version": 1,
            "topics": sorted({*self.topics, *self.partitions}),
            "partitions": {name: sorted(self.partitions[name]) for name in sorted(self.partitions)},
            "brokers": self.brokers,
            "configs": sorted(self.configs),
            "by": self.by,
        }
        data = json.dumps(document, separators=(",", ":")).encode()
        return Create(layout.CHANGE, data, sequence=True)


def decode(name: str, data: bytes) -> Announcement:
    """What the change node `name` says; BarnabasError: nothing that can be understood."""
    try:
        return _decoded(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, KafkaError) as error:
        raise BarnabasError(
            f"The cluster's store holds no announcement at {layout.CHANGES}/{name}."
        ) from error


def _decoded(found: Any) -> Announcement:
    """Each part is looked at: paths are made of them, and a wrong path would end whoever reads."""
    partitions = {
        _topic(topic): frozenset(map(_number, numbers))
        for topic, numbers in found.get("partitions", {}).items()
    }
    return Announcement(
        frozenset(map(_topic, found["topics"])) - partitions.keys(),
        partitions,
        bool(found["brokers"]),
        frozenset(map(_config, found["configs"])),
        str(found.get("by", "")),
    )


def _topic(name: str) -> str:
    check_topic_name(name)
    return name


def _number(number: object) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"no partition: {number!r}")
    return number


def _config(name: str) -> str:
    kind, _, whose = name.partition("/")
    if not kind or not whose or "/" in whose:
        raise ValueError(f"nobody's settings: {name!r}")
    return name


def together(announcements: Iterable[Announcement]) -> Announcement:
    """One that says what all of them say."""
    topics: set[str] = set()
    partitions: dict[str, frozenset[int]] = {}
    configs: set[str] = set()
    brokers = False
    for each in announcements:
        topics |= each.topics
        configs |= each.configs
        brokers = brokers or each.brokers
        for topic, numbers in each.partitions.items():
            partitions[topic] = partitions.get(topic, frozenset()) | numbers
    some = {topic: numbers for topic, numbers in partitions.items() if topic not in topics}
    return Announcement(frozenset(topics), some, brokers, frozenset(configs))


def of_writes(writes: Iterable[Write], by: str) -> Announcement:
    """What brokers must learn of these writes."""
    said = together(
        Announcement(
            topics=frozenset({each.topic} if each.topic and each.partitions is None else ()),
            partitions={each.topic: frozenset(each.partitions)}
            if each.topic and each.partitions is not None
            else {},
            configs=frozenset({each.config} if each.config else ()),
        )
        for each in writes
    )
    return Announcement(said.topics, said.partitions, said.brokers, said.configs, by)


class Heard:
    """How far the list of change nodes has been followed."""

    def __init__(self) -> None:
        self._last = ""

    def begin(self, names: Sequence[str]) -> None:
        """Everything up to these is known, because all is read after they were listed."""
        self._last = max(names, default="")

    def unheard(self, names: Sequence[str]) -> Sequence[str] | None:
        """The new ones among all that there are; None: some may have been missed."""
        if self._last and self._last not in names:
            return None
        return [name for name in names if name > self._last]

    def heard(self, names: Sequence[str]) -> None:
        """These were followed."""
        self._last = max((self._last, *names))


def outdated(names: Sequence[str]) -> Sequence[str]:
    """The change nodes to remove, if it is time to."""
    return names[:-KEPT] if len(names) >= KEPT + SPARE else ()
