"""Nothing is left behind: process groups that end when whoever started them is killed.

SIGKILL gives no time to stop children, so a small process apart holds the other end of a pipe.
When the pipe closes, it ends every group it was told of and not told off again. It imports nothing
but the standard library, and runs as a script of its own.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from types import TracebackType
from typing import IO, Final, Self

POLITE_S: Final = 5.0
"""Between SIGTERM and SIGKILL: Java removes its temporary files meanwhile."""


class Watchdog:
    """The end of the pipe that dies with us."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def watch(self, group: int) -> None:
        """This group ends with us."""
        self._tell(f"+{group}")

    def forget(self, group: int) -> None:
        """It has ended; its number may become somebody else's."""
        self._tell(f"-{group}")

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        # A watchdog that somebody killed is no reason to fail what it watches over.
        with contextlib.suppress(BrokenPipeError):
            if pipe is not None:
                pipe.write(f"{line}\n")
                pipe.flush()

    def close(self) -> None:
        """Let it end what it still knows of, and itself."""
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Self:
        """Watches already."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()


def end_groups(groups: Collection[int], polite_s: float = POLITE_S) -> None:
    """SIGTERM to every process of the groups, SIGKILL to those who are there after a while."""
    deadline = time.monotonic() + polite_s
    left = [group for group in groups if send(group, signal.SIGTERM)]
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [group for group in left if send(group, 0)]
    for group in left:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> bool:
    """Whether there was anybody in the group to send it to."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # On some systems the second is the answer for a group of none but zombies.
        return False
    return True


def guard(orders: IO[str]) -> None:
    """Follow orders until the pipe closes, then end who is left."""
    watched: set[int] = set()
    for order in orders:
        group = int(order[1:])
        if order.startswith("+"):
            watched.add(group)
        else:
            watched.discard(group)
    end_groups(watched)


if __name__ == "__main__":
    guard(sys.stdin)
