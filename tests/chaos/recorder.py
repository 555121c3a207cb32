"""Writes the history of clients, line by line, for `barnabas verify`. (See docs/verify.md.)"""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Final

_ACKNOWLEDGING: Final = {("ok", "send"), ("ok", "txn"), ("info", "send")}
"""Ends whose offsets were acknowledged: those of a burst that failed in part, too."""


class Recorder:
    """One file of a history. What was noted is in the file when `note` returns, so that a process
    that is killed right after it has still told what it was doing."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()
        self.highest: dict[tuple[str, int], int] = {}
        """The highest offset that was acknowledged, by topic and partition."""

    def note(self, process: str, kind: str, f: str, value: Any = None, **more: Any) -> None:
        """One event of a process, now."""
        event: dict[str, Any] = {"process": process, "type": kind, "f": f, "time": 0, **more}
        if value is not None:
            event["value"] = value
        with self._lock:
            if (kind, f) in _ACKNOWLEDGING:
                self._remember(value)
            event["time"] = time.monotonic_ns()
            line = memoryview(json.dumps(event, separators=(",", ":")).encode() + b"\n")
            while line:
                line = line[os.write(self._descriptor, line) :]

    def _remember(self, steps: Any) -> None:
        for step in steps or ():
            if step[0] == "send" and len(step) > 4 and step[4] is not None:
                place = step[1], step[2]
                self.highest[place] = max(step[4], self.highest.get(place, -1))

    def close(self) -> None:
        """No more of it."""
        os.close(self._descriptor)
