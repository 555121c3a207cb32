"""Break a real cluster on purpose: `python -m tests.chaos.cluster.run --minutes 60`.

Three brokers and three ZooKeeper servers on hosts of their own (network namespaces), clients of
every kind, and a fault every ten seconds. Each part begins with a fresh cluster and ends with
a verdict on everything its clients saw, and a comparison of all replicas. Progress is saved after
each part: a run that was stopped goes on with the next one. See docs/chaos.md.
"""

import argparse
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.chaos.cluster.crowd import Pace
from tests.chaos.cluster.faults import faults
from tests.chaos.cluster.hosting import HOSTS, unmount_below
from tests.chaos.cluster.network import Loopback, Network, NoNetworkError
from tests.chaos.cluster.part import PartRun, Terms
from tests.chaos.cluster.report import is_passed, report
from tests.chaos.cluster.results import CHANGED, Part, Results, load, save

ROOT: Final = Path(__file__).resolve().parents[3]
HOME: Final = Path(tempfile.gettempdir()) / "barnabas-chaos"
_SLACK_S: Final = 30.0
"""A last part shorter than this is not worth a cluster: the one before is so much longer."""
_BROKEN_OFF_MAX: Final = 2
"""After so many in a row there is no use in going on."""
_RECORDS_A_PART: Final = 250_000
_FAST: Final = Pace(records=(100, 300), pause_s=0.05, fed_per_s=400.0)
_FOR_EVER_S: Final = 3600.0
_STATE: Final = "run.json"


def tell(line: str) -> None:
    """Progress, for whoever watches."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


def enter_network(stack: ExitStack, *, loopback: bool) -> Network:
    """Hosts of their own, where that is possible."""
    if not loopback:
        try:
            return stack.enter_context(Network(HOSTS))
        except NoNetworkError as reason:
            tell(f"Everything runs on loopback, through a proxy: {reason}.")
    return stack.enter_context(Loopback(HOSTS))


def is_done(results: Results, options: argparse.Namespace) -> bool:
    """Whether there was enough of it."""
    if options.no_faults:
        return results.acknowledged >= int(options.records)
    return results.seconds >= float(options.minutes) * 60


@contextmanager
def held(home: Path) -> Iterator[None]:
    """A directory of which nobody else touches anything meanwhile."""
    home.mkdir(parents=True, exist_ok=True)
    directory = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        raise SystemExit(f"Another chaos run works in {home}: wait until it ends.") from None
    try:
        yield
    finally:
        os.close(directory)


def commit_here() -> str:
    """What is tested, in short; "" where that is not known."""
    commit = _git("rev-parse", "--short", "HEAD")
    is_changed = _git("status", "--porcelain", "--", "src", "tests") != ""
    return f"{commit}{CHANGED}" if commit and is_changed else commit


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""  # No git here, or no repository: then nobody knows.
    return done.stdout.strip()


def is_hopeless(results: Results) -> bool:
    """Whether the last parts all broke off."""
    last = results.parts[-_BROKEN_OFF_MAX:]
    return len(last) == _BROKEN_OFF_MAX and all(part.broke_off for part in last)


def run(options: argparse.Namespace, stopping: threading.Event) -> Results:
    """All parts that are still to be done."""
    commit = commit_here()
    with ExitStack() as stack:
        # Whoever is at work already is not to lose anything: first nobody else may be, then we.
        stack.enter_context(held(options.home))
        results = Results(options.seed)
        if not options.fresh:
            results = load(options.home / _STATE, options.seed)
            if is_done(results, options) and results.is_of(commit):
                tell(f"All of it is done already, with {commit}: NOTHING WAS RUN. (--fresh would.)")
                return results
        network = enter_network(stack, loopback=options.loopback)
        results = _taken_up(results, options)
        results.network = network.how
        while not is_done(results, options) and not stopping.is_set():
            part = Part(len(results.parts) + 1, options.seed, commit=commit)
            part = PartRun(
                part, options.home, network, _terms(results, options, stopping), tell
            ).run()
            results.parts.append(part)
            save(options.home / _STATE, results)
            _tell_of(part)
            _write(options, results)
            if is_hopeless(results):
                tell(f"{_BROKEN_OFF_MAX} parts in a row broke off: there it ends.")
                break
    return results


def _taken_up(results: Results, options: argparse.Namespace) -> Results:
    """What it goes on with; nothing when it begins anew."""
    unmount_below(options.home)
    if results.parts and not is_done(results, options):
        tell(f"It goes on after part {results.parts[-1].number} of {options.home}.")
        return results
    if results.parts:
        before = ", ".join(dict.fromkeys(part.commit or "unknown" for part in results.parts))
        tell(f"All of it was done before, but with other code ({before}): it begins anew.")
    if results.parts or options.fresh:
        (options.home / _STATE).unlink(missing_ok=True)
        for part in options.home.glob("part-*"):
            shutil.rmtree(part)
    return Results(options.seed)


def _tell_of(part: Part) -> None:
    found = ", ".join(f"{n} {what}" for what, n in part.anomalies.items()) or "nothing"
    acknowledged = part.tally.get("values acknowledged", 0)
    tell(
        f"part {part.number}: {part.seconds:.0f} s, {len(part.struck)} faults, "
        f"{acknowledged:,} records acknowledged, found {found}, {len(part.problems)} problems"
    )
    for problem in part.problems[:5]:
        tell(f"    {problem}")


def _terms(results: Results, options: argparse.Namespace, stopping: threading.Event) -> Terms:
    if options.no_faults:
        left = options.records - results.acknowledged
        return Terms(_FOR_EVER_S, None, min(left, _RECORDS_A_PART), _FAST, stopping=stopping)
    left_s = options.minutes * 60 - results.seconds
    broken = faults(options.seed, results.next_fault)
    return Terms(seconds_of_a_part(options.part * 60, left_s), broken, stopping=stopping)


def seconds_of_a_part(wanted_s: float, left_s: float) -> float:
    """All that is left, when nearly nothing would be left after it."""
    return left_s if left_s < wanted_s + _SLACK_S else wanted_s


def _write(options: argparse.Namespace, results: Results) -> None:
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        # Tracebacks of the rig's own name its files: where they lie here is nobody's business.
        text = report(results, is_finished=is_done(results, options))
        options.out.write_text(text.replace(f"{ROOT}/", ""))


def _stop(stopping: threading.Event, number: int) -> None:
    """The part comes to its end, and to its verdict; who asks twice does not wait for that."""
    if stopping.is_set():
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)  # What is cleared away now takes seconds.
        sys.exit(128 + number)
    stopping.set()
    tell("This part comes to its end; the same command goes on with the next one.")


def main() -> int:
    """As told on the command line; 1 when something is wrong, or not all of it was run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="in all parts together")
    parser.add_argument("--part", type=float, default=10.0, help="minutes of each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-faults", action="store_true", help="break nothing")
    parser.add_argument("--records", type=int, default=1_000_000, help="enough without faults")
    parser.add_argument("--loopback", action="store_true", help="without hosts of their own")
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    parser.add_argument("--home", type=Path, help="data, state and evidence")
    parser.add_argument("--out", type=Path, help="also write the report to this file")
    options = parser.parse_args()
    if options.home is None:
        options.home = HOME.with_name(HOME.name + ("-no-faults" if options.no_faults else ""))
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: _stop(stopping, number))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # It tells of each try.
    results = run(options, stopping)
    is_finished = is_done(results, options)
    print(report(results, is_finished=is_finished), end="")
    _write(options, results)
    sys.stdout.flush()
    # Client libraries may still have threads that wait for brokers which are no more.
    is_good = is_passed(results, None if options.no_faults else options.minutes)
    os._exit(0 if is_finished and is_good else 1)


if __name__ == "__main__":
    sys.exit(main())
