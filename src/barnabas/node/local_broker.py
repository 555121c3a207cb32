"""A broker as a process of its own on this machine, which ends with the one that started it."""

import contextlib
import json
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from barnabas.config.layers import load_broker_config
from barnabas.model.check import require
from barnabas.model.errors import BarnabasError
from barnabas.node.member import FAILED, READY

READY_S_MAX: Final = 120.0
"""Recovery of a large directory takes long; then the log says what it does."""

STOP_S_MAX: Final = 30.0
LOOK_S: Final = 0.1
"""How often it is looked whether something has come to its end."""

_LAST_WORDS_S: Final = 2.0


class LocalBroker:
    """One broker. `hear` gets every line that it logs, on a thread of its own."""

    program: Sequence[str] = ("-m", "barnabas.node.member")
    """What Python is told to run."""

    def __init__(
        self,
        number: int,
        address: tuple[str, int],
        settings: Mapping[str, str],
        hear: Callable[[str], None],
        log_level: str = "info",
        pid_file: Path | None = None,
    ) -> None:
        """`pid_file` names the process while it runs, for whoever may stop it.

        Raises BarnabasError when the settings make no sense."""
        load_broker_config(flags=settings)
        self.number = number
        self.address = address
        self._orders = json.dumps({"settings": dict(settings), "log_level": log_level})
        self._hear = hear
        self._pid_file = pid_file
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients find it."""
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def pid(self) -> int:
        """Its process."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; `wait_ready` says when it serves."""
        require(not self.is_running, "the broker runs already")
        self._let_go()
        self._process = subprocess.Popen(
            [sys.executable, *self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A group of its own: Ctrl-C is for whoever started it, who stops it in its turn.
            process_group=0,
        )
        if self._pid_file is not None:
            self._pid_file.write_text(f"{self._process.pid}\n")
        with contextlib.suppress(BrokenPipeError):  # It ended at once: `wait_ready` says why.
            stdin = _pipe(self._process.stdin)
            stdin.write(f"{self._orders}\n".encode())
            stdin.flush()
        self._listener = threading.Thread(
            target=self._listen, args=(_pipe(self._process.stderr),), daemon=True
        )
        self._listener.start()

    def wait_ready(self, timeout_s: float = READY_S_MAX) -> None:
        """Return once it serves. Raises BarnabasError when it does not, and why."""
        if not self.is_ready(timeout_s):
            raise BarnabasError(
                f"Broker {self.number} at {self.bootstrap} does not serve after {timeout_s:g} s."
            )

    def is_ready(self, timeout_s: float = 0.0) -> bool:
        """Whether it serves, within the time. Raises BarnabasError when it never will, and why.

        To be asked until it is so, and not again.
        """
        stdout = _pipe(self._started().stdout)
        if not select.select([stdout], [], [], timeout_s)[0]:
            return False
        said = stdout.readline().decode(errors="replace").strip()
        if said == READY:
            return True
        reason = said.removeprefix(FAILED)
        if not reason:
            code = self._started().wait()
            reason = f"It ended with exit code {code} before it served."
        raise BarnabasError(f"Broker {self.number} can not start: {reason}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process lives."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def stop(
        self, timeout_s: float = STOP_S_MAX, heed: Callable[[], None] = lambda: None
    ) -> int | None:
        """End it in an orderly way, or by force if that takes too long; its exit code, if it was
        started.

        `heed` is called again and again meanwhile; what it raises ends the wait.
        """
        if self._process is not None:
            self.signal(signal.SIGTERM)
            # A stopped process (SIGSTOP) would not hear the other signal.
            self.signal(signal.SIGCONT)
            deadline = time.monotonic() + timeout_s
            while self.is_running and time.monotonic() < deadline:
                heed()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(LOOK_S)
            if self.is_running:
                self._hear(f"still stopping after {timeout_s:g} s: it is killed")
        return self.kill()

    def kill(self) -> int | None:
        """End it as a crash would; its exit code, if it was started."""
        code = None
        if self._process is not None:
            self._process.kill()
            code = self._process.wait()
        self._let_go()
        return code

    def ended(self) -> str | None:
        """How it ended, in words; None while it lives."""
        code = self._started().poll()
        if code is None:
            return None
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BarnabasError(f"Broker {self.number} is not started.")
        return self._process

    def _listen(self, stderr: IO[bytes]) -> None:
        for line in stderr:
            self._hear(line.decode(errors="replace").rstrip("\n"))

    def _let_go(self) -> None:
        """Hear its last words, and close what tied us to it."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._pid_file is not None:
            # Its number may be given to another process from now on.
            self._pid_file.unlink(missing_ok=True)
        if self._listener is not None:
            # Not longer: its worker processes may hold the pipe until they notice, too.
            self._listener.join(_LAST_WORDS_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    require(pipe is not None, "the process was started with pipes")
    return pipe  # type: ignore[return-value]
