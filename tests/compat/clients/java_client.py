"""Kafka's own Java client behind the common port."""

import subprocess
from functools import cache
from pathlib import Path

from tests.compat.clients.child import SOURCES, ChildClient
from tests.compat.port import CODECS, Can
from tests.compat.real_kafka import CACHE, KAFKA_VERSION, jars


class JavaClient(ChildClient):
    """The client that defines what a Kafka client is."""

    name = "java"
    codecs = CODECS
    can = frozenset(Can)

    @classmethod
    def command(cls) -> list[str]:
        return [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-cp",
            f"{_classes()}:{jars()}/*",
            "Driver",
        ]


@cache
def _classes() -> Path:
    directory = CACHE / f"kafka-{KAFKA_VERSION}" / "driver"
    directory.mkdir(parents=True, exist_ok=True)
    source = SOURCES / "java" / "Driver.java"
    subprocess.run(
        ["javac", "-nowarn", "-d", str(directory), "-cp", f"{jars()}/*", str(source)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return directory
