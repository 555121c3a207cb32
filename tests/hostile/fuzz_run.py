"""Throw mutated requests at a broker: `python tests/hostile/fuzz_run.py --frames 200000 --seed 1`.

Progress is saved, so that a run that was stopped goes on where it was. A frame is made from the
seed, its number and the ids of the topics it is about; whatever was wrong with one is told with
its bytes, and `--replay HEX` throws these again.
"""

import argparse
import json
import os
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.hostile.fuzz import Attack
from tests.hostile.siege import SOCKETS, Siege

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-fuzz-run"
_TIDY_EVERY: Final = 2000


def run(frames: int, seed: int, home: Path) -> dict[str, Any]:
    """Go on until so many frames were thrown, or something is wrong; what there is to tell."""
    home.mkdir(parents=True, exist_ok=True)
    state_path = home / f"state-{seed}.json"
    state = _load(state_path)
    while state["frames"] < frames and not state["problems"]:
        _one_broker(state, frames, seed, home, state_path)
    return state


def _load(path: Path) -> dict[str, Any]:
    if path.exists():
        saved: dict[str, Any] = json.loads(path.read_text())
        return saved
    counts = dict.fromkeys(("frames", "seconds", "records", "seen", "questions"), 0)
    return {**counts, "outcomes": {}, "brokers": [], "problems": []}


def _one_broker(
    state: dict[str, Any], frames: int, seed: int, home: Path, state_path: Path
) -> None:
    """Throw what is left of the frames at one broker process."""
    siege = Siege(home / f"from-{state['frames']}", seed, Counter(state["outcomes"]))
    began = time.monotonic()
    try:
        siege.open()
        while state["frames"] < frames and not siege.problems:
            numbers = range(state["frames"], min(state["frames"] + SOCKETS, frames))
            siege.attack(numbers)
            state["frames"] = numbers.stop
            if numbers.stop % _TIDY_EVERY < SOCKETS:
                siege.tidy()
                state["outcomes"] = dict(siege.outcomes)
                _save(state_path, state)
                _show(numbers.stop, frames, siege)
        siege.close()
    finally:
        siege.broker.close()
    state["outcomes"] = dict(siege.outcomes)
    state["seconds"] += time.monotonic() - began
    state["records"] += siege.traffic
    state["seen"] += siege.seen
    state["questions"] += siege.asked
    state["brokers"].append([siege.sent, vars(siege.before), vars(siege.after)])
    state["problems"] += siege.problems
    _save(state_path, state)


def _save(path: Path, state: dict[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    os.replace(fresh, path)


def _show(done: int, frames: int, siege: Siege) -> None:
    rss = siege.broker.status_kib("VmRSS") // 1024
    print(f"{done:,} of {frames:,} frames; the broker holds {rss} MiB", file=sys.stderr, flush=True)


def summary(state: dict[str, Any], seed: int) -> str:
    """What is to be told, as text."""
    verdict = f"seed {seed}, {state['seconds']:.0f} s: {len(state['problems'])} problems"
    lines = [
        f"{state['frames']:,} mutated requests of every API and version over {SOCKETS} sockets",
        verdict,
    ]
    lines += [f"  {count:9,} {outcome}" for outcome, count in sorted(state["outcomes"].items())]
    lines += [
        "beside them, and unharmed:",
        f"  {state['records']:9,} records of an idempotent producer, each acknowledged and there",
        f"  {state['seen']:9,} of them read along by a consumer, in order",
        f"  {state['questions']:9,} questions with known answers",
    ]
    for sent, before, after in state["brokers"]:
        lines.append(f"the broker before and after {sent:,} of the requests:")
        for name in before:
            lines.append(f"  {name:12} {before[name]:8,} {after[name]:8,}")
    lines += [f"PROBLEM {problem}" for problem in state["problems"]]
    return "\n".join(lines) + "\n"


def replay(data: bytes, home: Path) -> int:
    """Throw bytes at a broker of its own, and say what became of them."""
    siege = Siege(home / "replay", 0)
    (size,) = struct.unpack_from(">i", data.ljust(4, b"\0"))
    try:
        siege.open()
        siege.throw([Attack(0, "replay", "given bytes", data, ends=size != len(data) - 4)])
        siege.close()
    finally:
        siege.broker.close()
    print(*siege.outcomes, *siege.problems, sep="\n")
    shutil.rmtree(siege.home)
    return 1 if siege.problems else 0


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path, default=_HOME, help="data and progress of the run")
    parser.add_argument("--out", type=Path, help="also write the summary to this file")
    parser.add_argument("--replay", type=bytes.fromhex, help="throw only these bytes, given in hex")
    options = parser.parse_args()
    # Without this the broker would outlive a run that is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.replay is not None:
        return replay(options.replay, options.home)
    state = run(options.frames, options.seed, options.home)
    text = summary(state, options.seed)
    print(text, end="")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    if state["problems"]:
        print(f"Data and logs are kept in {options.home}.", file=sys.stderr)
        return 1
    shutil.rmtree(options.home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
