"""`barnabas up --brokers N`, and other commands that stay, as people run them."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

_START = """\
import ctypes, runpy, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
runpy.run_module("barnabas", run_name="__main__", alter_sys=True)
"""
"""As `-m barnabas`, but told to stop (by PR_SET_PDEATHSIG) when whoever has started it is gone: a
run that is killed can not see to that itself."""
_COMMAND = (sys.executable, "-c", _START)
READY = re.compile(r"Barnabas .* is ready at (\S+) with (\d) brokers; Ctrl-C stops it\. (.*)")
KILL = re.compile(r"kill -9 (\d+) \(broker (\d)\)")
WAIT_S = 90.0


class Foreground:
    """The command, and every line it has said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        for pipe in (process.stdout, process.stderr):
            threading.Thread(target=self._listen, args=(pipe,), daemon=True).start()

    def _listen(self, pipe: Iterator[str]) -> None:
        self.said.extend(pipe)

    def wait_for(self, pattern: str | re.Pattern[str], times: int = 1) -> re.Match[str]:
        """The line that says so, once it is said so many times."""
        deadline = time.monotonic() + WAIT_S
        while True:
            found = [match for line in list(self.said) if (match := re.search(pattern, line))]
            if len(found) >= times:
                return found[times - 1]
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)

    def ready(self) -> tuple[str, dict[int, int]]:
        """Bootstrap servers, and the processes by broker."""
        bootstrap = self.wait_for(READY)[1]
        line = self.wait_for(KILL).string
        return bootstrap, {int(number): int(pid) for pid, number in KILL.findall(line)}

    def end(self) -> str:
        """Wait for its end; all that it said."""
        self.process.wait(WAIT_S)
        return "".join(self.said)


def running(*arguments: str) -> AbstractContextManager[Foreground]:
    """`barnabas up` with these."""
    return started("up", *arguments)


@contextmanager
def started(*arguments: str) -> Iterator[Foreground]:
    """Any command that stays."""
    with subprocess.Popen(
        [*_COMMAND, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment(),
    ) as process:  # fmt: skip
        foreground = Foreground(process)
        try:
            yield foreground
        finally:
            process.kill()


def _environment() -> dict[str, str]:
    """Ours without any broker key somebody may have set."""
    return {name: text for name, text in os.environ.items() if not name.startswith("BARNABAS_")}
