"""Long jobs, one at a time: in a process of its own, or on a thread where files are in memory."""

import asyncio
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Final, Protocol, TypeVar

from barnabas.ports.work import Caller, JobCancelledError, JobDiedError

T = TypeVar("T")

IDLE_S_MAX: Final = 30.0
"""A process without a job is kept for so long, because the next job may come soon."""

_FRAME: Final = struct.Struct(">Q")


class Apart(Protocol):
    """Where long jobs run."""

    def run(self, job: Callable[[Caller], T], told: Callable[[Any], None]) -> "asyncio.Future[T]":
        """Start a job; `told` is called on the running loop."""
        ...

    def cancel(self) -> None:
        """End the job that runs, soon; then its future is done."""
        ...

    def close(self) -> None:
        """End everything, and wait until that is done."""
        ...


def write_frame(stream: IO[bytes], value: object) -> None:
    """Send one value through a pipe."""
    data = pickle.dumps(value)
    stream.write(_FRAME.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Any:
    """The next value from a pipe; EOFError when its other end is gone."""
    return pickle.loads(_exactly(stream, _FRAME.unpack(_exactly(stream, _FRAME.size))[0]))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


class _Teller:
    """Hands parts over to the loop, and says when to stop."""

    def __init__(self, told: Callable[[Any], None]) -> None:
        self._told = told
        self._loop = asyncio.get_running_loop()
        self.cancelled = threading.Event()

    def tell(self, part: object) -> None:
        self.check()
        self._loop.call_soon_threadsafe(self._told, part)

    def check(self) -> None:
        if self.cancelled.is_set():
            raise JobCancelledError


class ThreadApart:
    """On a thread of its own, for files that no other process can see."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="barnabas-apart")
        self._teller: _Teller | None = None

    def run(self, job: Callable[[Caller], T], told: Callable[[Any], None]) -> "asyncio.Future[T]":
        """Start a job; `told` is called on the running loop."""
        teller = self._teller = _Teller(told)
        return asyncio.get_running_loop().run_in_executor(self._pool, job, teller)

    def cancel(self) -> None:
        """The job learns it when it next asks."""
        if self._teller is not None:
            self._teller.cancelled.set()

    def close(self) -> None:
        """End everything, and wait until that is done."""
        self.cancel()
        self._pool.shutdown(wait=True)


class ProcessApart:
    """In a process of low priority, started when the first job comes.

    It gets nothing of this one but two pipes, and ends when they do: so it neither keeps sockets
    open nor outlives us.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="barnabas-apart")
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        """Whether the process is on its way out, or out."""
        self._guard = threading.Lock()
        self._teller: _Teller | None = None
        self._idle: asyncio.TimerHandle | None = None

    def run(self, job: Callable[[Caller], T], told: Callable[[Any], None]) -> "asyncio.Future[T]":
        """Start a job; `told` is called on the running loop."""
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        self._idle = None
        teller = self._teller = _Teller(told)
        future: asyncio.Future[T] = loop.run_in_executor(self._pool, self._do, job, teller)
        future.add_done_callback(lambda _: self._rest(loop))
        return future

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        self._idle = loop.call_later(IDLE_S_MAX, self.cancel)

    def _do(self, job: Callable[[Caller], T], teller: _Teller) -> T:
        """On the thread: send the job, hand on what is told, wait for the answer."""
        process = self._started(teller)
        if process.stdin is None or process.stdout is None:
            raise JobDiedError("its process has no pipes")
        try:
            write_frame(process.stdin, job)
            while True:
                word, value = read_frame(process.stdout)
                if word == "part":
                    teller.tell(value)
                elif word == "answer":
                    return value  # type: ignore[no-any-return]
                else:
                    raise value
        except (EOFError, BrokenPipeError) as error:
            self._end()
            if teller.cancelled.is_set():
                raise JobCancelledError from error
            code = process.returncode
            raise JobDiedError(f"the process of a long job ended with {code}") from error

    def _started(self, teller: _Teller) -> "subprocess.Popen[bytes]":
        if self._is_killed or (self._process is not None and self._process.poll() is not None):
            self._end()
        with self._guard:
            # Whoever cancels takes the guard too: no process is started that nobody ends.
            teller.check()
            if self._process is None:
                self._is_killed = False
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _program()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    close_fds=True,
                    start_new_session=True,
                )
            return self._process

    def _end(self) -> None:
        with self._guard:
            process, self._process = self._process, None
        if process is None:
            return
        # Without the guard: it may be waiting for a disk, and the loop must not wait with it.
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _drop(pipe)

    def cancel(self) -> None:
        """Kill the process, whatever it does."""
        with self._guard:
            if self._teller is not None:
                self._teller.cancelled.set()
            if self._process is not None:
                self._is_killed = True
                self._process.kill()

    def close(self) -> None:
        """End everything, and wait until that is done."""
        self.cancel()
        self._pool.shutdown(wait=True)
        self._end()


def _drop(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # Part of a job was not sent yet; its process is gone.


def _program() -> str:
    """With our own path, so that it runs the same modules as we do."""
    return f"import sys; sys.path[:] = {sys.path!r}; from barnabas.world.worker import main; main()"
