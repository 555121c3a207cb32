"""Whether the rig finds mistakes that are put into its brokers: `make chaos-planted`.

Real processes, as in `run`, each broker with the same mistake; of the faults only those in which a
leader is alone and clients still reach it. A mistake that is not found is a hole in the rig.
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.chaos.cluster import faults
from tests.chaos.cluster.ending import REPLICAS_DIFFER
from tests.chaos.cluster.faults import Deck, Kind
from tests.chaos.cluster.network import Network
from tests.chaos.cluster.part import PartRun, Terms
from tests.chaos.cluster.results import Part
from tests.chaos.cluster.run import enter_network, held, tell

_MEMBER: Final = str(Path(__file__).with_name("planted_member.py"))
_PARTS_MAX: Final = 3
_PART_S: Final = 75.0
_TOLD: Final = 3
_HOLDS_S: Final = {Kind.CUT: (9.0, 12.0)}
"""Long enough for others to be elected meanwhile."""


@dataclass(frozen=True)
class Planted:
    """A mistake, and what it does."""

    mistake: str
    does: str


_LEADER_ALONE: Final[Deck] = (
    (Kind.CUT, faults.SAYS_NOTHING, 1),
    (Kind.CUT, faults.HEARS_NOTHING, 1),
)
_ALL: Final = (
    Planted(
        "acknowledged_before_it_is_committed",
        "A leader acknowledges what only it has.",
    ),
    Planted(
        "readers_see_what_is_not_committed",
        "A leader shows what its followers do not have yet.",
    ),
    Planted(
        "nobody_looks_where_logs_part",
        "A follower keeps what it has though its leader has something else there.",
    ),
)


_CONTROL: Final = Planted("no mistake", "The broker as it is: here nothing may be found.")


def named(mistake: str) -> Planted:
    """As on the command line: a name that nobody has would be a mistake that nobody looks for."""
    for each in _ALL:
        if each.mistake == mistake:
            return each
    names = ", ".join(each.mistake for each in _ALL)
    raise argparse.ArgumentTypeError(f"there is no {mistake!r}, only {names}")


def found_by(part: Part) -> str | None:
    """Who has found the mistake. A part that broke off, or clients that only wait, do not count:
    so would end a broker that does not even start."""
    if part.broke_off:
        return None
    if part.anomalies:
        return "the histories"
    if any(problem.startswith(REPLICAS_DIFFER) for problem in part.problems):
        return "the comparison of replicas"
    return None


def control(home: Path, network: Network, seed: int) -> Part:
    """The same faults without a mistake."""
    tell(f"{_CONTROL.mistake}: {_CONTROL.does}")
    broken = faults.faults(seed + 1, 0, _LEADER_ALONE, _HOLDS_S)
    return PartRun(Part(1, seed), home / "control", network, Terms(_PART_S, broken), tell).run()


def hunt(planted: Planted, home: Path, network: Network, seed: int) -> Part:
    """Until something is found, or it is too late."""
    for number in range(1, _PARTS_MAX + 1):
        tell(f"{planted.mistake}, part {number}: {planted.does}")
        broken = faults.faults(seed + number, 0, _LEADER_ALONE, _HOLDS_S)
        terms = Terms(_PART_S, broken, program=(_MEMBER, planted.mistake), until_caught=True)
        part = PartRun(Part(number, seed), home / planted.mistake, network, terms, tell).run()
        if found_by(part) is not None:
            break
    return part


def lines_of(planted: Planted, part: Part) -> list[str]:
    """What was said of it."""
    found = ", ".join(f"{count} {what}" for what, count in part.anomalies.items())
    by = found_by(part)
    verdict = "THE RIG DOES NOT FIND IT" if by is None else f"found by {by}"
    if planted is _CONTROL:
        verdict = "clean" if part.is_clean else "NOT CLEAN, without any mistake"
    when = f"part {part.number}, after {len(part.struck)} faults in {part.seconds:.0f} s"
    return [
        planted.mistake,
        f"    {planted.does}",
        f"    {when}: {verdict} ({found or 'no anomaly in the histories'})",
        *(f"        {sentence}" for sentence in part.problems[:_TOLD]),
        "",
    ]


def main() -> int:
    """1 when a mistake is not found, or something without one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mistakes", nargs="*", type=named, help="by name; or all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    home = options.home or Path(tempfile.gettempdir()) / "barnabas-chaos-planted"
    wanted = options.mistakes or _ALL
    lines, found = [], 0
    with ExitStack() as stack:
        stack.enter_context(held(home))
        network = enter_network(stack, loopback=False)
        for planted in wanted:
            part = hunt(planted, home, network, options.seed)
            found += found_by(part) is not None
            lines += lines_of(planted, part)
            shutil.rmtree(home / planted.mistake, ignore_errors=True)
        checked = control(home, network, options.seed)
        lines += lines_of(_CONTROL, checked)
    lines.append(f"{found} of {len(wanted)} planted mistakes found.")
    text = "\n".join(lines) + "\n"
    print(text, end="", flush=True)
    if options.out is not None:
        options.out.write_text(text)
    os._exit(0 if found == len(wanted) and checked.is_clean else 1)


if __name__ == "__main__":
    sys.exit(main())
