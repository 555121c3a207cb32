"""How far long work has got: a line that is drawn over on a terminal, now and then a line else."""

import shutil
import sys
import time
from types import TracebackType
from typing import Final, Self

_BAR_CHARS: Final = 30
_ERASE: Final = "\r\x1b[K"
_LINES_S: Final = 5.0


class ProgressLine:
    """Tells on stderr. Without a terminal it tells what is new at most every few seconds."""

    def __init__(self) -> None:
        self._drawn = False
        self._told = ""
        self._told_s = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.erase()

    def show(self, text: str, part: float | None = None) -> None:
        """What is going on, and how much of it is done, from 0 to 1."""
        if sys.stderr.isatty():
            line = text if part is None else f"{bar(part)} {text}"
            width = shutil.get_terminal_size().columns - 1
            print(f"{_ERASE}{line[:width]}", end="", file=sys.stderr, flush=True)
            self._drawn = True
            return
        now = time.monotonic()
        if text != self._told and now - self._told_s >= _LINES_S:
            self._told, self._told_s = text, now
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        self.erase()
        print(text, flush=True)

    def erase(self) -> None:
        """Leave the screen as it was."""
        if self._drawn:
            print(_ERASE, end="", file=sys.stderr, flush=True)
            self._drawn = False


def bar(part: float) -> str:
    """A bar that is filled so far."""
    filled = round(_BAR_CHARS * min(max(part, 0.0), 1.0))
    return "█" * filled + "░" * (_BAR_CHARS - filled)
