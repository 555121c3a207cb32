"""What scenarios play on, and what they share: topics of their own, comparisons, bounded waits."""

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.compat.port import WAIT_S, Can, Client, Delivery, Message, Sending

T: Final = 1_700_000_000_000
MIB: Final = 1 << 20
ALL_BYTES: Final = bytes(range(256))


@dataclass
class Stage:
    """What a scenario plays on: the client, and topics of its own, made by the stage hand."""

    client: Client
    make_topic: Callable[[str, int, dict[str, str]], None]
    made: int = field(default=0)
    prefix: str = field(default_factory=lambda: uuid.uuid4().hex[:10])

    def name(self) -> str:
        """A topic name that nobody has used."""
        self.made += 1
        return f"{self.client.name}-{self.prefix}-{self.made}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic; dots in config names are written as underscores."""
        name = self.name()
        plain = {key.replace("_", "."): value for key, value in configs.items()}
        self.make_topic(name, partitions, plain)
        return name


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    name: str
    play: Callable[[Stage], None]
    needs: frozenset[Can] = frozenset()
    codec: str = "none"

    def suits(self, client: type[Client]) -> bool:
        """Whether the library offers what the scenario needs."""
        return self.needs <= client.can and self.codec in client.codecs


def produced(stage: Stage, topic: str, messages: Sequence[Message], sending: Sending | None = None
             ) -> list[Delivery]:  # fmt: skip
    """Produce what must succeed."""
    results = stage.client.produce(topic, messages, sending)
    assert [result.error for result in results] == [None] * len(messages)
    return results


def same(sent: Sequence[Message], got: Sequence[Message], first_offset: int = 0) -> None:
    """What came back is what was sent, byte for byte and in order."""
    expected = [
        replace(message, offset=first_offset + n, timestamp=got[n].timestamp)
        if message.timestamp is None and n < len(got)
        else replace(message, offset=first_offset + n)
        for n, message in enumerate(sent)
    ]
    assert list(got) == expected


def eventually(ask: Callable[[], object], expected: object) -> None:
    """A change was answered before every broker had heard of it: ask again, within bounds."""
    deadline = time.monotonic() + WAIT_S
    while (answer := ask()) != expected:
        assert time.monotonic() < deadline, f"still {answer!r}, not {expected!r}"
        time.sleep(0.05)


def sample(can: frozenset[Can]) -> list[Message]:
    """Messages of every shape the library can make."""
    stamp = T if Can.TIMESTAMPS in can else None
    chance = random.Random(7)
    messages = [
        Message(value=b"plain", timestamp=stamp),
        Message(value=b"keyed", key=b"k", timestamp=stamp),
        Message(
            value=ALL_BYTES, key=b"\0\xff" if Can.BINARY_KEYS in can else b"bin", timestamp=stamp
        ),
        Message(value="Grüße, 世界".encode(), key="ключ".encode(), timestamp=stamp),
        Message(value=b"one header", key=b"h", headers=(("name", b"value"),), timestamp=stamp),
        Message(value=b"aaaa" * 5000, timestamp=stamp),
        Message(value=chance.randbytes(20_000), timestamp=stamp),
    ]
    if Can.NULL_VALUES in can:
        messages.append(Message(value=None, key=b"tombstone", timestamp=stamp))
    if Can.EMPTY_VALUES in can:
        messages.append(Message(value=b"", key=b"", timestamp=stamp))
    if Can.NULL_HEADER_VALUES in can:
        messages.append(Message(value=b"null", headers=(("none", None),), timestamp=stamp))
    if Can.DUPLICATE_HEADERS in can:
        twice = (("twice", b"1"), ("twice", b"2"), ("empty", b""), ("twice", ALL_BYTES))
        messages.append(Message(value=b"duplicates", headers=twice, timestamp=stamp))
    return messages


def row(play: Callable[[Stage], None], *needs: Can) -> Scenario:
    """A row of the table, named as the function is."""
    return Scenario(play.__name__.replace("_", " "), play, frozenset(needs))
