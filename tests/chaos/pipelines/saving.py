"""How far a run has come, for the next one to go on from."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any


def load(home: Path) -> dict[str, Any]:
    """Nothing when nothing was saved."""
    path = home / "run.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def save(home: Path, strikes: Sequence[Any], seconds: float) -> None:
    """All at once."""
    fresh = home / "run.new"
    state = {
        "strikes": [asdict(strike) for strike in strikes],
        "seconds": seconds,
    }
    fresh.write_text(json.dumps(state))
    os.replace(fresh, home / "run.json")
