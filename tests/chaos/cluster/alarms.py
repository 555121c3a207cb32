"""What brokers, and ZooKeeper's servers, must not say in their logs."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_ALARMING: Final = re.compile(r"\S+ (ERROR|CRITICAL) ")
"""A line of a broker's log: the time, how serious it is, and what there is to say."""
_PARTED: Final = "digest mismatch"
"""A server of ZooKeeper has found that its tree is not that of the others."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_HEARD_MAX: Final = 5

CUT_OFF: Final = (
    "replica(s) are in sync, and min.insync.replicas asks for",
    "was not committed, and is loaded anew",
)
"""What coordinators say where the leader has lost its followers: nothing can be committed, and of
what was not nobody was told. Anything else that a fault brings is told as a warning."""
WITHOUT_ROOM: Final = ("No space left on device",)
"""What brokers say of a full disk. Even then nothing may be damaged or lost."""


class LogWatch:
    """Reads on in each log where it was the last time."""

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._read = dict.fromkeys(paths, 0)

    def look(self, without_room: Collection[int] = ()) -> list[str]:
        """What is new and alarming; a full disk excuses only what is said of it."""
        found = []
        for number, path in self._paths.items():
            if not path.exists():
                continue
            with path.open("rb") as log:
                log.seek(self._read[number])
                text = log.read().decode(errors="replace")
                self._read[number] = log.tell()
            heard = list(alarms(text, WITHOUT_ROOM if number in without_room else ()))
            found += [f"broker {number} logged: {each}" for each in heard[:_HEARD_MAX]]
            if len(heard) > _HEARD_MAX:
                found.append(f"broker {number} logged {len(heard) - _HEARD_MAX} more of these")
        return found


def alarms(text: str, expected: Collection[str] = ()) -> Iterator[str]:
    """Errors, and tracebacks by their last line, but for those that hold something expected."""
    for each in _alarms(text):
        if not any(words in each for words in (*CUT_OFF, *expected)):
            yield each


def _alarms(text: str) -> Iterator[str]:
    lines = iter(text.splitlines())
    for line in lines:
        if _ALARMING.match(line):
            yield line.strip()
        elif _TRACEBACK in line:
            # What is below is indented, up to the error itself.
            error = next((each for each in lines if each and not each[0].isspace()), "")
            yield f"a traceback: {error}"


def parted_servers(logs: Iterable[Path]) -> Iterator[str]:
    """Servers of ZooKeeper that do not know what the others know (ZOOKEEPER-4837): brokers that ask
    them are told wrong things, and nothing that comes of it says anything about brokers."""
    for log in sorted(logs):
        said = log.read_text(errors="replace").splitlines()
        found = next((line for line in said if _PARTED in line), None)
        if found is not None:
            name = log.parent.name
            yield f"ZooKeeper's own fault, its {name} has parted from the others: {found}"
