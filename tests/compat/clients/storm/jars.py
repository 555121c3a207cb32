"""The jars of Apache Storm, from Maven Central once, kept under ~/.cache/barnabas."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.compat.real_kafka import CACHE

# The newest release of which Maven Central has given everything so far.
STORM_VERSION: Final = "2.8.3"
KAFKA_CLIENTS_VERSION: Final = "4.1.0"
"""What that Storm is built and tested with."""

NEEDED: Final = "needs Maven (mvn) and a JDK (javac), which bring and build Storm's topology"
"""What to install where `available` says no."""

_HERE: Final = Path(__file__).parent
_HOME: Final = CACHE / f"storm-{STORM_VERSION}"
_STAMP: Final = _HOME / "complete"


class JarsError(Exception):
    """The jars could not be had; the message holds Maven's own words."""


def available() -> bool:
    """Whether Storm can be had here: its jars are cached, or Maven can bring them."""
    if shutil.which("javac") is None:
        return False
    return _STAMP.exists() or shutil.which("mvn") is not None


@cache
def class_path() -> str:
    """Storm's jars and our topology, brought and compiled when first wanted."""
    jars = _HOME / "jars"
    if not _STAMP.exists():
        jars.mkdir(parents=True, exist_ok=True)
        _bring(jars)
        _STAMP.touch()
    classes = _HOME / "classes"
    classes.mkdir(exist_ok=True)
    source = _HERE / "Topology.java"
    subprocess.run(
        ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", str(source)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return f"{classes}:{jars}/*"


def _bring(directory: Path) -> None:
    command = [
        "mvn", "-q", "-B", "-f", str(_HERE / "storm.pom.xml"),
        f"-Dstorm.version={STORM_VERSION}", f"-Dkafka-clients.version={KAFKA_CLIENTS_VERSION}",
        "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={directory}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise JarsError(f"Maven could not bring Storm's jars:\n{done.stdout}{done.stderr}")
