"""A broker process that can be looked into: `python observed_broker.py REPORT WISHES up --port …`.

WISHES is a JSON object: `limits` of `barnabas.model.limits` to tighten, so that a test need not
wait for the real ones, `file_bytes_max`, beyond which no file can grow, and `descriptors_max`. On
SIGUSR1 the number of asyncio tasks and threads goes to the file REPORT.
"""

import asyncio
import gc
import json
import os
import resource
import signal
import sys
import threading
from types import FrameType

from barnabas.model import limits


def tighten(tighter: dict[str, float]) -> None:
    """Set limits before any room has read them."""
    for name, value in tighter.items():
        if not hasattr(limits, name):
            raise SystemExit(f"there is no limit {name}")
        setattr(limits, name, value)


def limit_files(size: int) -> None:
    """Let writing fail beyond this size; only the soft limit, so that it can be taken back."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


def report_on_signal(path: str) -> None:
    """Answer each SIGUSR1 with a line; the file is open from the start, as descriptors may lack."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def report(_number: int, _frame: FrameType | None) -> None:
        gc.collect()
        tasks = len(asyncio.all_tasks(asyncio.get_running_loop()))
        line = json.dumps({"tasks": tasks, "threads": threading.active_count()})
        os.write(descriptor, f"{line}\n".encode())

    signal.signal(signal.SIGUSR1, report)


def main() -> None:
    """Prepare this process, then be the broker."""
    _, path, wishes, *arguments = sys.argv
    wished = json.loads(wishes)
    tighten(wished["limits"])
    if wished["file_bytes_max"] is not None:
        limit_files(wished["file_bytes_max"])
    if wished["descriptors_max"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wished["descriptors_max"],) * 2)
    report_on_signal(path)
    from barnabas.cli.main import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
