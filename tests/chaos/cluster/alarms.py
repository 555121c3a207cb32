"""What brokers must not say in their logs."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last)"
_CRITICAL: Final = " CRITICAL "
_HEARD_MAX: Final = 5


class LogWatch:
    """Reads on in each log where it was the last time."""

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._read = dict.fromkeys(paths, 0)

    def look(self, excused: Collection[int] = ()) -> list[str]:
        """What is new and alarming; of those who are excused it is passed over."""
        found = []
        for number, path in self._paths.items():
            if not path.exists():
                continue
            with path.open("rb") as log:
                log.seek(self._read[number])
                text = log.read().decode(errors="replace")
                self._read[number] = log.tell()
            if number not in excused:
                heard = list(alarms(text))
                found += [f"broker {number} logged: {each}" for each in heard[:_HEARD_MAX]]
                if len(heard) > _HEARD_MAX:
                    found.append(f"broker {number} logged {len(heard) - _HEARD_MAX} more of these")
        return found


def alarms(text: str) -> Iterator[str]:
    """Critical lines, and tracebacks by their last line."""
    lines = iter(text.splitlines())
    for line in lines:
        if _CRITICAL in line:
            yield line.strip()
        elif _TRACEBACK in line:
            # What is below is indented, up to the error itself.
            error = next((each for each in lines if each and not each[0].isspace()), "")
            yield f"a traceback: {error}"
