"""`make test-deploy`: the samples of docs/deploy, checked with the tools that will read them.

    python -m tests.deploy.run --out bench/results/deploy.txt

What can not be checked here (no Go, no systemd, no root) is told and skipped.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tests.deploy import checks

CHECKS: dict[str, Callable[[], list[str]]] = {
    "systemd units, by systemd-analyze": checks.units,
    "compose.yaml, by the loader of docker compose": checks.compose,
    "Kubernetes manifests, by the API server's own code": checks.kubernetes,
    "Dockerfile, by BuildKit's parser and lint": checks.dockerfile,
    "the same with mistakes in them": checks.planted,
    "the commands of the Dockerfile, run here": checks.image,
    "the compose sample as processes on seven machines (network namespaces)": checks.cluster,
}


def main() -> int:
    """Every check, to the screen and a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    text = ""
    for title, check in CHECKS.items():
        print(f"{title} …", file=sys.stderr, flush=True)
        try:
            lines, verdict = check(), "passed"
        except checks.SkippedError as reason:
            lines, verdict = [f"skipped: {reason}"], "skipped"
        except (AssertionError, OSError) as error:
            lines, verdict = [f"FAILED: {error}"], "failed"
        counts[verdict] += 1
        text += "\n  ".join([title, *lines]) + "\n"
    text += "\n{passed} passed, {failed} failed, {skipped} skipped\n".format(**counts)
    print(text, end="")
    if chosen.out is not None:
        chosen.out.write_text(text)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
