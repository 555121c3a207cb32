"""One run of a pipeline at a time: the lock in its state folder, and who has it."""

import contextlib
import datetime
import fcntl
import json
import os
import socket
import time
from types import TracebackType
from typing import Final, NamedTuple, Self

from barnabas.spark.pipelines.places import PipelineError

FILE: Final = "lock"
_ATTEMPTS: Final = 5
_ATTEMPT_S: Final = 0.1
"""Whoever only asks has the lock for a moment, which must not look like a run."""
_LEFT_BEHIND_S: Final = 15.0
"""How long the driver of a run that was killed may take to end."""


class Holder(NamedTuple):
    """Who runs a pipeline."""

    pid: int
    host: str
    since: str
    """ISO 8601, in UTC."""

    @property
    def is_killed(self) -> bool:
        """Whether its process is gone, so that only what it had started can still hold on."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


class Lock:
    """Held while it is open, here and in every process that inherited its descriptor."""

    def __init__(self, state: str, pipeline: str) -> None:
        """Take it; PipelineError when somebody else has it, OSError when there is no folder."""
        os.makedirs(state, exist_ok=True)
        self.descriptor = os.open(os.path.join(state, FILE), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._take(state, pipeline)
            self.holder = Holder(os.getpid(), socket.gethostname(), now())
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, json.dumps(self.holder._asdict()).encode(), 0)
        except BaseException:
            os.close(self.descriptor)
            raise

    def _take(self, state: str, pipeline: str) -> None:
        waited_until = time.monotonic() + _LEFT_BEHIND_S
        attempts = _ATTEMPTS
        while not _flock(self.descriptor, fcntl.LOCK_EX):
            holder = _holder(self.descriptor)
            attempts -= 1
            is_ending = holder is not None and holder.is_killed
            if attempts <= 0 and not (is_ending and time.monotonic() < waited_until):
                raise PipelineError(None, _running_already(pipeline, state, holder))
            time.sleep(_ATTEMPT_S)

    def __enter__(self) -> Self:
        """Held already."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Let go."""
        os.close(self.descriptor)


def holder_of(state: str) -> Holder | None:
    """Who runs the pipeline of this state folder; None when nobody does."""
    try:
        descriptor = os.open(os.path.join(state, FILE), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if _flock(descriptor, fcntl.LOCK_SH):
            return None
        # Between taking the lock and writing into it there is a moment.
        return _holder(descriptor) or Holder(0, "", "")
    finally:
        os.close(descriptor)


def now() -> str:
    """This moment, as it stands in files: ISO 8601 in UTC."""
    moment = datetime.datetime.now(datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> Holder | None:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        said = json.loads(os.pread(descriptor, 10_000, 0))
        return Holder(int(said["pid"]), str(said["host"]), str(said["since"]))
    return None


def _running_already(pipeline: str, state: str, holder: Holder | None) -> str:
    who = "another process"
    if holder is not None:
        where = "" if holder.host == socket.gethostname() else f" on {holder.host}"
        who = f"process {holder.pid}{where} since {holder.since}"
    return (
        f"Pipeline {pipeline} is running already ({who}): stop that one first, or give this file "
        f"another name and another state folder than {state}."
    )
