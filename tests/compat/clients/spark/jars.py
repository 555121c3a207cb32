"""The jars of Spark's own Kafka connector, which PySpark's package leaves out.

They come from Maven Central once and are kept under ~/.cache/barnabas, as a real Kafka's are.

    python -m tests.compat.clients.spark.jars        prints the class path
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.compat.real_kafka import CACHE

# The newest connector that Maven Central has given so far: one minor version behind PySpark 4.3.
CONNECTOR_VERSION: Final = os.environ.get("BARNABAS_SPARK_CONNECTOR", "4.2.0")
_VERSIONS: Final = {
    "connector": CONNECTOR_VERSION,
    "token-provider": "4.0.0",  # The same code, and the only one of the 4.x series to be had.
    "kafka-clients": "3.9.2",
    "commons-pool2": "2.13.1",
}
_POM: Final = Path(__file__).with_name("connector.pom.xml")


class JarsError(Exception):
    """The jars could not be had; the message holds Maven's own words."""


def available() -> bool:
    """Whether the connector can be had here: its jars are cached, or Maven can bring them."""
    if shutil.which("java") is None:
        return False
    return _stamp().exists() or shutil.which("mvn") is not None


def connector_jars() -> list[Path]:
    """The connector and what it needs beside PySpark's own jars; brought on first use."""
    stamp = _stamp()
    directory = stamp.parent / "jars"
    if not stamp.exists():
        directory.mkdir(parents=True, exist_ok=True)
        _bring(directory)
        stamp.touch()
    found = sorted(directory.glob("*.jar"))
    if len(found) != len(_VERSIONS):
        names = ", ".join(path.name for path in found)
        raise JarsError(f"{directory} should hold {len(_VERSIONS)} jars, and holds: {names}")
    return found


def _bring(directory: Path) -> None:
    command = [
        "mvn", "-q", "-B", "-f", str(_POM),
        *(f"-D{name}.version={version}" for name, version in _VERSIONS.items()),
        "dependency:copy-dependencies", f"-DoutputDirectory={directory}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise JarsError(f"Maven could not bring the connector:\n{done.stdout}{done.stderr}")


def _stamp() -> Path:
    return CACHE / f"spark-sql-kafka-{CONNECTOR_VERSION}" / "complete"


if __name__ == "__main__":
    print(":".join(str(path) for path in connector_jars()))
