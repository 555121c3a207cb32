"""The command line of a run that kills brokers: how often, from which seed, what to keep."""

import argparse
import shutil
import signal
import sys
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Protocol, TypeVar


class Lives(Protocol):
    """What a run leaves behind."""

    @property
    def problems(self) -> Sized:
        """What went wrong."""


L = TypeVar("L", bound=Lives)


def run_from_command_line(
    doc: str | None,
    count_flag: str,
    home: Path,
    run: Callable[[int, int, Path], L],
    summary: Callable[[L], str],
    usual: int = 30,
) -> int:
    """Run as told; 1 when something is wrong, and then the data directory is kept."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument(count_flag, type=int, default=usual, dest="count")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path, default=home, help="data and progress of the run")
    parser.add_argument("--out", type=Path, help="also write the summary to this file")
    options = parser.parse_args()
    # Without this the broker would outlive a run that is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    lives = run(options.count, options.seed, options.home)
    text = summary(lives)
    print(text, end="")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    if len(lives.problems):
        print(f"The data directory is kept in {options.home}.", file=sys.stderr)
        return 1
    shutil.rmtree(options.home)
    return 0
