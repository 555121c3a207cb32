"""The asker of the group differential: many connections, and ids called by order of appearance.

A JoinGroup waits for other members, so a question can be begun on one connection and its answer
collected after others were asked on theirs. Member ids and topic ids differ from run to run: in
what is kept they are numbered in each scene, and rows without an order of their own are sorted.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kio.serial import entity_reader
from kio.serial.errors import SerialError
from tests.compat.clients.probe import ANSWER_WAIT_S, HUNG_UP, SILENT, Probe
from tests.compat.raw import ConnectionGone, Plain, RawConnection, message_type, to_plain

from barnabas.wire.tolerant import read_message

SETTLE_S: Final = 0.25
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_BASE64_UUID: Final = re.compile(r"^[A-Za-z0-9_-]{22}$")
_NOISE: Final = frozenset({"throttle_time"})
_BYTES: Final = frozenset({"metadata", "assignment", "member_metadata", "member_assignment"})
_UNORDERED: Final = frozenset(
    {
        "members", "topic_partitions", "topics", "groups", "configs", "results", "partitions",
        "coordinators", "subscribed_topic_names",
    }
)  # fmt: skip
_KEYS: Final = ("name", "topic_id", "group_id", "member_id", "key", "partition_index")
_LONG_CHARS: Final = 200


@dataclass
class Names:
    """What the ids of a scene are called: by topic, or by the order in which they came up."""

    topics: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)

    def tidy(self, value: Any) -> Any:
        """The same data with names for ids, sorted where a broker's order says nothing."""
        if isinstance(value, dict):
            return {key: self._field(key, item) for key, item in value.items() if key not in _NOISE}
        if isinstance(value, list | tuple):
            return [self.tidy(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: Any) -> Any:
        if key == "member_id" and isinstance(value, str) and _BASE64_UUID.match(value):
            return self.seen.setdefault(value, f"<base64 uuid {len(self.seen) + 1}>")
        if key in _BYTES and isinstance(value, str | list):
            return _readable(value)
        if key in _UNORDERED and isinstance(value, list):
            return sorted((self.tidy(row) for row in sorted(value, key=self._rank)), key=_order)
        return self.tidy(value)

    def _rank(self, row: Any) -> str:
        """Sorts rows by what is known of them, before the ids among them are numbered."""
        text = _text_of(row)
        for known, name in (self.topics | self.seen).items():
            text = text.replace(known, name)
        return _UUID.sub("~", text)

    def _text(self, text: str) -> str:
        if text in self.topics:
            return self.topics[text]
        if text in self.seen:
            return self.seen[text]
        if len(text) > _LONG_CHARS:
            return f"{text[:20]}... ({len(text)} chars)"
        return _UUID.sub(self._numbered, text)

    def _numbered(self, match: re.Match[str]) -> str:
        return self.seen.setdefault(match[0], f"<uuid {len(self.seen) + 1}>")


def _readable(value: str | list[Any]) -> Any:
    """Bytes as the text that was put into them, when they are one."""
    if not value or not isinstance(value, str):
        return value or ""
    data = bytes.fromhex(value) if re.fullmatch(r"(?:[0-9a-f]{2})+", value) else value.encode()
    return data.decode() if data.isascii() and data.decode().isprintable() else f"0x{data.hex()}"


def _text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)


def _order(row: Any) -> tuple[int, str]:
    """Sorts numbers by size, rows by what names them, and then by everything else."""
    if isinstance(row, int):
        return row, ""
    named = [row[key] for key in _KEYS if key in row] if isinstance(row, dict) else []
    return 0, _text_of([named, row])


class GroupConnection(RawConnection):
    """A connection whose answer can be collected later than it was asked for."""

    def answer(self, response: type[Any]) -> Plain:
        """The answer to the last request sent; it may have tagged fields that kio does not know."""
        frame = self.receive()
        try:
            return self._decode(response, frame)
        except KeyError:
            _, at = entity_reader(response.__header_schema__)(frame, 0)
            plain: Plain = to_plain(read_message(response, frame[at:]))
            return plain | {"unknown_tagged_fields": True}

    def be_patient(self, wait_s: float) -> None:
        """How long to wait for an answer from here on."""
        self._socket.settimeout(wait_s)


@dataclass(frozen=True)
class Pending:
    """A question whose answer has not been collected."""

    api: str
    version: int
    body: Plain
    who: str


@dataclass
class GroupProbe(Probe):
    """Asks one broker about groups over as many connections as there are members."""

    scene: str = ""
    names: Names = field(default_factory=Names)
    on_answer: Callable[[str, Plain], None] = lambda _name, _entry: None
    _others: dict[str, GroupConnection] = field(default_factory=dict)

    def play(self, scenario: "GroupScenario") -> None:
        """One scenario, with connections and names of its own; what breaks it off is kept."""
        self.scene = (scenario.__doc__ or scenario.__name__).strip().rstrip(".")
        self.names = self.new_names()
        try:
            scenario(self)
        except (AssertionError, LookupError, TypeError, ValueError, OSError) as error:
            self.keep("broken off", "", {}, {"scenario": f"{type(error).__name__}: {error}"})
        finally:
            self.hang_up()

    def new_names(self) -> Names:
        """What the ids of a scene will be called."""
        return Names()

    def ask(self, name: str, api: str, version: int, body: Plain, who: str = "a") -> Plain:
        """Ask on the connection of `who` and keep the answer."""
        return self.finish(name, self.begin(api, version, body, who, settle_s=0))

    def begin(
        self, api: str, version: int, body: Plain, who: str, *, settle_s: float = SETTLE_S
    ) -> Pending:
        """Send, and give the broker time to take it in; the answer is collected by `finish`."""
        pending = Pending(api, version, body, who)
        link = self.link(who)
        link.send(link.frame(message_type(api, version, "request"), body))
        time.sleep(settle_s)
        return pending

    def finish(self, name: str, pending: Pending) -> Plain:
        """Collect the answer of what was begun, and keep it."""
        answer = self.collect(pending)
        label = f"{pending.api} v{pending.version}"
        self.keep(name, label, pending.body, answer, who=pending.who)
        return answer

    def collect(self, pending: Pending) -> Plain:
        """The answer of what was begun; a closed or silent connection is an answer too."""
        link = self.link(pending.who)
        try:
            response = message_type(pending.api, pending.version, "response")
            return link.answer(response)
        except (ConnectionGone, ConnectionError):
            self.drop(pending.who)
            return dict(HUNG_UP)
        except TimeoutError:
            self.drop(pending.who)
            return dict(SILENT)
        except SerialError as error:
            self.drop(pending.who)
            return {"answer": f"cannot be read: {type(error).__name__}"}

    def quietly(self, api: str, version: int, body: Plain, who: str = "a") -> Plain:
        """Ask without keeping the answer: for setting the stage."""
        return self.collect(self.begin(api, version, body, who, settle_s=0))

    def must(self, api: str, version: int, body: Plain, who: str = "a") -> Plain:
        """Ask for setting the stage, and insist that nothing was refused."""
        answer = self.quietly(api, version, body, who)
        if answer.get("error_code", "NONE") != "NONE" or "connection" in answer:
            raise AssertionError(f"cannot set the stage: {api} {self.names.tidy(answer)}")
        return answer

    def ask_bytes(self, name: str, pending: Pending, old: bytes, new: bytes) -> None:
        """Ask with some bytes of the request replaced: what no encoder would write."""
        link = self.link(pending.who)
        frame = link.frame(message_type(pending.api, pending.version, "request"), pending.body)
        if old not in frame:
            raise AssertionError("nothing to replace")
        link.send(frame.replace(old, new))
        self.finish(name, pending)

    def keep(self, name: str, api: str, body: Plain, answer: Plain, who: str = "a") -> None:
        """Write an answer down under the scene's name and its own."""
        full = f"{self.scene}: {name}"
        if full in self.answers:
            raise AssertionError(f"two answers are called {full!r}")
        request = one_line(self.names.tidy(body))
        entry = {"api": api, "who": who, "request": request, "answer": self.names.tidy(answer)}
        self.answers[full] = entry
        self.on_answer(full, entry)

    def link(self, who: str) -> GroupConnection:
        """The connection of `who`; opened on demand."""
        if who not in self._others:
            wait_s = 2 * ANSWER_WAIT_S
            self._others[who] = GroupConnection(self.bootstrap, f"client-{who}", wait_s=wait_s)
        return self._others[who]

    def drop(self, who: str) -> None:
        """Hang up one connection."""
        self._others.pop(who).close()

    def hang_up(self) -> None:
        """Hang up every connection."""
        for who in list(self._others):
            self.drop(who)

    def topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic; its id is called by its name from here on."""
        topic_id = self.make_topic(name, partitions)
        time.sleep(SETTLE_S)  # Kafka's group coordinator hears of it later than its leaders do.
        self.names.topics[topic_id] = f"<id of {name}>"
        return topic_id


def one_line(value: Any) -> str:
    """Compact text of a request: names without quotes, nothing that is empty."""
    if isinstance(value, dict):
        said = {key: item for key, item in value.items() if item not in (None, "", [], ())}
        return ", ".join(f"{key}={one_line(item)}" for key, item in said.items())
    if isinstance(value, list | tuple):
        return "[" + "; ".join(one_line(item) for item in value) + "]"
    if isinstance(value, bytes):
        return repr(value if len(value) < 80 else value[:77] + b"...")
    if isinstance(value, str):
        return value if value.isprintable() else repr(value)
    return str(value)


GroupScenario = Callable[[GroupProbe], None]
