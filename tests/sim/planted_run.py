"""Look for the first seed that finds each planted mistake: `make test-planted`."""

import argparse
import logging
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.sim.planted.mistakes import PLANTS
from tests.sim.planted.search import Found, first_that_finds


def hunted(name: str, seeds: range) -> Found | None:
    """What is found of one mistake."""
    logging.disable(logging.CRITICAL)
    return first_that_finds(PLANTS[name], seeds)


def table(found: dict[str, Found | None], seeds: range) -> str:
    """What is committed as the result."""
    width = max(map(len, found))
    lines = [f"{'mistake':{width}}  seed  broken promise"]
    lines += [
        f"{name:{width}}  {each.seed:4}  {each.promise}"
        if each is not None
        else f"{name:{width}}  none of seeds {seeds[0]} to {seeds[-1]} finds it"
        for name, each in found.items()
    ]
    count = sum(each is not None for each in found.values())
    lines.append(f"{count} of {len(found)} found with seeds {seeds[0]} to {seeds[-1]}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """1 when a mistake is not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-300", help="the first and the last")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("mistakes", nargs="*", default=list(PLANTS), help="by name; or all")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    found = {}
    with ProcessPoolExecutor(arguments.processes) as pool:
        hunts = {name: pool.submit(hunted, name, seeds) for name in arguments.mistakes}
        for name, hunt in hunts.items():
            found[name] = each = hunt.result()
            print(f"{name}: {'nothing' if each is None else f'seed {each.seed}, {each.words}'}")
            sys.stdout.flush()
    text = table(found, seeds)
    arguments.out.write_text(text)
    print(text)
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
