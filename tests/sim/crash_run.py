"""Many seeds of simulated crashes, with a summary: `make test-sim SEEDS=0-300`.

    python tests/sim/crash_run.py --seeds 0-300 --out FILE

A seed that fails is printed with what is needed to see it again, and the exit code is 1.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from pathlib import Path

from barnabas.sim.log_crashes import tell


def run(first: int, last: int) -> tuple[str, int]:
    """The summary of seeds `first` to `last`, and how many of them failed."""
    began = time.monotonic()
    sums: Counter[str] = Counter()
    failed: list[str] = []
    for seed in range(first, last + 1):
        try:
            sums.update(tell(seed).tally)
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed is what counts
            failed.append(f"seed {seed}: {type(error).__name__}: {error}")
        done = seed - first + 1
        if sys.stderr.isatty() and done % 20 == 0:
            print(f"\r{done:,} seeds, {len(failed)} failed", end="", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    lines = [
        f"{last - first + 1:,} seeds ({first} to {last}) in {seconds:.0f} s: {len(failed)} failed",
        f"{sums['lives']:>10,} lives of a data directory with three logs",
        f"{sums['batches']:>10,} batches appended",
        f"{sums['crashes']:>10,} power cuts (tails lost, torn, zeroed; names lost; syncs failed)",
        f"{sums['cut']:>10,} logs that had lost some of their unsynced tail",
        f"{sums['repeats']:>10,} batches repeated by idempotent producers afterwards",
        *failed,
    ]
    return "\n".join(lines) + "\n", len(failed)


def main() -> None:
    """Parse, run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-300", help="first and last, as in 0-300")
    parser.add_argument("--out", type=Path, help="where to write the summary as well")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    logging.disable(logging.CRITICAL)
    summary, failed = run(int(first), int(last or first))
    print(summary, end="")
    if options.out:
        options.out.write_text(summary)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
