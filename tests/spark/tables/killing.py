"""Run as a program: starts writers of one table and kills each at some step.

It has no threads, so it can fork: a writer costs milliseconds instead of an interpreter's start.
When it is killed itself, its writer ends with the pipe between them.
"""

import os
import random
import signal
import sys

import pyarrow.parquet as pq
from tests.spark.tables.oracles import visible
from tests.spark.tables.plain import work_until_killed

KILLS = 20
_STEPS_OF_A_BATCH = 6


def main(folder: str) -> None:
    # Whatever a writer needs is imported before there are any.
    assert pq
    random_ = random.Random(7)
    for round_ in range(KILLS):
        mine, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(mine)
            work_until_killed(folder, theirs, visible)
        os.close(theirs)
        for _ in range(random_.randrange(1, 4 * _STEPS_OF_A_BATCH)):
            if not os.read(mine, 1):
                break
        for _ in range(random_.randrange(20_000)):
            # Somewhere within the next step: sleeping would be too long.
            pass
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(mine)
        if not os.WIFSIGNALED(status):
            sys.exit(f"writer {round_} ended by itself, so it found something wrong")


if __name__ == "__main__":
    main(sys.argv[1])
