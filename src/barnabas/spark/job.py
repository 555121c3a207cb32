"""`python -m barnabas.spark.job JOB.py …`: run a job file so that its end says what to do next.

Errors of this room are shown as their one sentence. The exit code tells `barnabas spark-run`
whether starting the driver again can help.
"""

import os
import runpy
import signal
import sys
import traceback
from typing import Final, NoReturn

from barnabas.model.errors import BarnabasError
from barnabas.spark.deaths import job_error, needs_change, sentence_of

FAILED: Final = 1
NEEDS_CHANGE: Final = 78
"""EX_CONFIG of sysexits.h: running it again would end in the same way."""
INTERRUPTED: Final = 130
TERMINATED: Final = 143


def main(arguments: list[str]) -> int:
    """Run the job; the exit code."""
    job = arguments[0]
    sys.argv = list(arguments)
    # As `python JOB.py` would: files next to the job can be imported.
    sys.path[0] = os.path.dirname(os.path.abspath(job))
    signal.signal(signal.SIGTERM, _terminate)
    try:
        hear_ctrl_c()
        runpy.run_path(job, run_name="__main__")
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - it is told, and decides the exit code
        return _failed(error)
    return 0


def hear_ctrl_c() -> None:
    """From now on, and once if it came already: whoever started this driver has it wait."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))


def _failed(error: Exception) -> int:
    ours = error if isinstance(error, BarnabasError) else job_error(error)
    if ours is None:
        traceback.print_exception(error)
    # Last, below whatever Spark has printed.
    print(f"barnabas: {sentence_of(ours or error)}", file=sys.stderr)
    return NEEDS_CHANGE if needs_change(error) else FAILED


def _terminate(_number: int, _frame: object) -> NoReturn:
    """Let `finally` run; Java ends when it sees that Python has."""
    sys.exit(TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
