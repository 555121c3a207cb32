"""Java programs beside these tests, compiled against Kafka's jars when first wanted."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.compat.real_kafka import CACHE, KAFKA_VERSION, jars

_SOURCES: Final = Path(__file__).parent / "java"
SMALL: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For programs of which many run at once."""


def java_command(program: str, *options: str) -> list[str]:
    """How to start the class `program`, with options for the virtual machine."""
    return ["java", *options, "-cp", f"{_classes(program)}:{jars()}/*", program]


@cache
def _classes(program: str) -> Path:
    directory = CACHE / f"kafka-{KAFKA_VERSION}" / program
    directory.mkdir(parents=True, exist_ok=True)
    source = _SOURCES / f"{program}.java"
    subprocess.run(
        ["javac", "-nowarn", "-d", str(directory), "-cp", f"{jars()}/*", str(source)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return directory
