"""What `barnabas log verify` prints."""

import os
import time
from typing import Final

from barnabas.cli.log_dump import partitions_at
from barnabas.cli.output import note, print_json, readable_size
from barnabas.log.dump import stored_segments
from barnabas.log.verify import Tally, verify_partition
from barnabas.model.errors import BarnabasError
from barnabas.world.files import DiskFiles

_PROGRESS_S: Final = 1.0


def verify_place(place: str, as_json: bool) -> int:
    """Check everything in a directory and print what is wrong; how many problems there are."""
    if not os.path.isdir(place):
        raise BarnabasError(f"{place} is no directory: name a data directory or a partition's.")
    progress = _Progress(place)
    tally = Tally(progress)
    problems = 0
    for partition in partitions_at(place):
        for problem in verify_partition(DiskFiles(), partition, tally):
            problems += 1
            if as_json:
                print_json({"file": problem.path, "position": problem.position,
                            "problem": problem.what})  # fmt: skip
            else:
                print(f"{problem.path}: byte {problem.position}: {problem.what}")
    if not as_json:
        looked_at = (
            f"{tally.partitions} partitions, {tally.segments} segments, {tally.batches} batches, "
            f"{tally.records} records, {readable_size(tally.size)}"
        )
        print(f"{looked_at}: {problems or 'no'} {'problem' if problems == 1 else 'problems'}.")
    return problems


class _Progress:
    """Says on stderr now and then how far it has got, once the work turns out to be long."""

    def __init__(self, place: str) -> None:
        self._total = sum(
            segment.size
            for partition in partitions_at(place)
            for segment in stored_segments(DiskFiles(), partition.directory)
        )
        self._next_s = time.monotonic() + _PROGRESS_S

    def __call__(self, tally: Tally) -> None:
        """Called often; speaks seldom."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _PROGRESS_S
        note(f"checked {readable_size(tally.size)} of {readable_size(self._total)}")
