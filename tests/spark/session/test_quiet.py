"""What is said of a Java that ended before there was a Spark."""

import os
from pathlib import Path

import pytest

from barnabas.spark.errors import SparkJobError
from barnabas.spark.quiet import quiet_start

WRONG_MASTER = """\
WARNING: Using incubator modules: jdk.incubator.vector
26/11/18 01:55:02 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1
2026-11-18T01:49:46.529Z WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or local
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
"""
WRONG_OPTION = "Error: Could not create the JVM.\nError: A fatal exception.\n"


def end_as_java(said: str) -> None:
    """What PySpark raises then, after what Java has printed."""
    os.write(2, said.encode())
    raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.")


@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (WRONG_MASTER, "Master must either be yarn or local"),
        (WRONG_OPTION, "Error: Could not create the JVM; Error: A fatal exception"),
        ("", "without a word"),
    ],
)
def test_why_java_ended(tmp_path: Path, said: str, why: str, has_log: bool) -> None:
    log = str(tmp_path / "spark.log") if has_log else None
    with pytest.raises(SparkJobError) as refusal, quiet_start(log):
        end_as_java(said)
    assert str(refusal.value) == (
        f"Java ended before Spark could start ({why}): check its master and its settings."
    )
