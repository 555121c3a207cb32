"""Simulate clusters, seed by seed, and write down what came of it: `make test-cluster-sim`.

Progress is kept beside the result file, so a run that was stopped goes on where it was, unless the
code has changed since. A seed that fails is told with the fewest of its faults that still make it
fail; with those lines in a file, `--seeds 7 --faults FILE` tells the same story again.
"""

import argparse
import hashlib
import json
import logging
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import barnabas
from barnabas.sim.cluster.plan import Fault
from barnabas.sim.cluster.run import SeedFailedError, simulate
from barnabas.sim.cluster.shrinking import shrink

_ROOMS: Final = (
    *("model", "ports", "wire", "link", "config", "log", "cluster", "replica", "coordinator"),
    *("api", "net", "broker", "sim"),
)
"""What takes part in a simulation."""


def told(seed: int) -> dict[str, Any]:
    """What came of a seed, as plain data."""
    logging.disable(logging.CRITICAL)
    try:
        return asdict(simulate(seed))
    except SeedFailedError as failure:
        fewest = [str(fault) for fault in shrink(failure)]
        return asdict(failure.report) | {"failure": str(failure), "fewest": fewest}


def told_again(seed: int, lines: Sequence[str]) -> str:
    """What comes of a seed with these faults, and what happened last before it failed."""
    try:
        report = simulate(seed, [Fault.read(line) for line in lines if line.strip()])
    except SeedFailedError as failure:
        return "\n".join([*failure.last, str(failure), f"digest {failure.report.digest}"])
    return f"seed {seed}: nothing fails\ndigest {report.digest}"


def main() -> int:
    """Run what is missing of the asked seeds; 1 when any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-2000", help="one, or the first and the last")
    parser.add_argument("--faults", type=Path, help="of one seed: these, instead of its own")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    if arguments.faults is not None:
        print(told_again(int(first), arguments.faults.read_text().splitlines()))
        return 0
    if arguments.out is None:
        parser.error("--out is missing: the file for the result")
    chosen = run(range(int(first), int(last or first) + 1), arguments.out, arguments.processes)
    text = summary(chosen)
    arguments.out.write_text(text)
    print(text)
    return 1 if any("failure" in each for each in chosen) else 0


def run(seeds: Sequence[int], out: Path, processes: int) -> list[dict[str, Any]]:
    """The reports of all these seeds, of which some may be known already."""
    progress, code = out.with_suffix(".progress.jsonl"), fingerprint()
    done = _progress(progress, code)
    missing = [seed for seed in seeds if seed not in done]
    with ProcessPoolExecutor(processes) as pool, progress.open("a") as notes:
        for report in pool.map(told, missing):
            done[report["seed"]] = report
            notes.write(json.dumps(report | {"code": code}) + "\n")
            notes.flush()
            if "failure" in report:
                print(failure_text(report), flush=True)
    return [done[seed] for seed in seeds]


def fingerprint() -> str:
    """Of the code that is simulated: what another code has done proves nothing of this one."""
    digest = hashlib.sha256()
    root = Path(barnabas.__file__).parent
    for room in _ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _progress(path: Path, code: str) -> dict[int, dict[str, Any]]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["seed"]: row for row in rows if row["code"] == code}


def failure_text(report: dict[str, Any]) -> str:
    """A failed seed, and the lines that `--faults` reads."""
    return "\n".join([report["failure"], *(f"    {each}" for each in report["fewest"])])


def summary(reports: list[dict[str, Any]]) -> str:
    """What is committed as the result."""

    def middle(name: str) -> float:
        return float(statistics.median(each[name] for each in reports))

    def total(name: str) -> int:
        return sum(each[name] for each in reports)

    failed = [each for each in reports if "failure" in each]
    lines = [
        f"seeds                {reports[0]['seed']} to {reports[-1]['seed']}: {len(reports)}",
        f"failed               {len(failed)}",
        (
            f"events               {total('events')} (least {min(e['events'] for e in reports)}, "
            f"median {middle('events'):.0f})"
        ),
        f"crashes              {total('crashes')} (median {middle('crashes'):.0f} a seed)",
        f"partitions           {total('partitions')} (median {middle('partitions'):.0f} a seed)",
        f"elections            {total('elections')}",
        f"moved partitions     {total('moves')}",
        f"acknowledged batches {total('acknowledged')}",
        f"records read         {total('read')}",
        f"virtual seconds      {sum(each['virtual_s'] for each in reports):.0f}",
        *map(failure_text, failed),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
