"""Lets the suites share modules (tests.…), which the importlib mode of pytest does not find."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
