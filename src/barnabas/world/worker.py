"""The process of long jobs: takes one after the other from its standard input, and answers.

It ends when its standard input does, in the middle of a job too: then nobody is left to answer.
"""

import os
import pickle
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import IO, Any, Final

from barnabas.ports.work import JobDiedError
from barnabas.world.apart import read_frame, write_frame

NICENESS: Final = 10
"""Whoever serves clients comes first."""


class _Pipe:
    """Who has asked for a job: the other end of the pipe."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def tell(self, part: object) -> None:
        write_frame(self._stream, ("part", part))

    def check(self) -> None:
        """Nothing to ask: a job that is not wanted any more is killed."""


def main() -> None:
    """Do jobs until there is nobody to do them for."""
    os.nice(NICENESS)
    # Whatever a library prints must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_take_jobs, args=(sys.stdin.buffer, jobs), daemon=True).start()
    while True:
        job = jobs.get()
        try:
            answer = ("answer", job(_Pipe(answers)))
        except Exception as error:  # noqa: BLE001 - told to whoever has asked
            answer = ("error", _told(error))
        write_frame(answers, answer)
        del job, answer


def _take_jobs(stream: IO[bytes], jobs: "SimpleQueue[Any]") -> None:
    """On a thread, so that the end of the pipe is seen whatever the job does."""
    while True:
        try:
            jobs.put(read_frame(stream))
        except EOFError:
            os._exit(0)
        except Exception:  # noqa: BLE001 - a job that can not be understood is the end
            traceback.print_exc()
            os._exit(1)


def _told(error: Exception) -> Exception:
    """The error itself where it can travel."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:  # noqa: BLE001 - whatever it is, it stays here
        traceback.print_exception(error)
        return JobDiedError(f"{type(error).__name__}: {error}")
