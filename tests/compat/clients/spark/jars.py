"""The jars of Spark's own Kafka connector, which PySpark's package leaves out.

They come from Maven Central once and are kept under ~/.cache/barnabas, as a real Kafka's are.

    python -m tests.compat.clients.spark.jars        prints the class path
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pyspark
from tests.compat.real_kafka import CACHE

SPARK_VERSION: Final = pyspark.__version__
SCALA_VERSION: Final = "2.13"
_POM: Final = Path(__file__).with_name("connector.pom.xml")
_WANTED: Final = (
    f"spark-sql-kafka-0-10_{SCALA_VERSION},spark-token-provider-kafka-0-10_{SCALA_VERSION},"
    "kafka-clients,commons-pool2"
)


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
    if len(found) != len(_WANTED.split(",")):
        names = ", ".join(path.name for path in found)
        raise JarsError(f"{directory} should hold one jar each of {_WANTED}, and holds: {names}")
    return found


def _bring(directory: Path) -> None:
    command = [
        "mvn", "-q", "-B", "-f", str(_POM), f"-Dspark.version={SPARK_VERSION}",
        "dependency:copy-dependencies", f"-DincludeArtifactIds={_WANTED}",
        "-DincludeScope=runtime", f"-DoutputDirectory={directory}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise JarsError(f"Maven could not bring the connector:\n{done.stdout}{done.stderr}")


def _stamp() -> Path:
    return CACHE / f"spark-sql-kafka-{SPARK_VERSION}" / "complete"


if __name__ == "__main__":
    print(":".join(str(path) for path in connector_jars()))
