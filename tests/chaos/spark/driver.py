"""The job's driver as a process with all its children, to be killed and started again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_JOB = Path(__file__).with_name("job.py")
_ROOT = Path(__file__).resolve().parents[3]


class Driver:
    """Python, the Java it starts, and their workers: one process group."""

    def __init__(self, home: Path, arguments: list[str]) -> None:
        self._home = home
        self._arguments = arguments
        self.events_path = home / "events.jsonl"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start; what it says is appended to driver.log."""
        environment = os.environ | {"PYTHONPATH": str(_ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, str(_JOB), *self._arguments, "--events", str(self.events_path)]
        with (self._home / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    @property
    def ended(self) -> int | None:
        """Its exit code, when it ended by itself."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """SIGKILL to the whole group: no goodbye from Python or Java."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def events(self) -> list[dict[str, Any]]:
        """What it has told so far."""
        if not self.events_path.exists():
            return []
        lines = self.events_path.read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def deaths(self) -> list[dict[str, Any]]:
        """How its query died, each time."""
        return [event for event in self.events() if event["event"] == "died"]
