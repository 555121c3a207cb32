"""A broker of the rig with a planted mistake: `python planted_member.py MISTAKE`.

It is the installed broker but for the mistake, which is put in from outside before it begins. The
mistakes are those that the simulated cluster must find, too (tests/sim/planted).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import pytest
from tests.sim.planted.mistakes import PLANTS

from barnabas.node import member


def main() -> int:
    """Serve, mistaken."""
    with pytest.MonkeyPatch.context() as patch:
        PLANTS[sys.argv[1]](patch)
        return member.main()


if __name__ == "__main__":
    sys.exit(main())
