"""Which Java Spark would run on, and whether it is new enough."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.spark.errors import SparkJobError

LEAST_MAJOR: Final = 17
"""What Spark 4 is compiled for."""
_ASK_S: Final = 60.0
_VERSION: Final = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_ADVICE: Final = (
    f"install Java {LEAST_MAJOR} or newer (such as openjdk-{LEAST_MAJOR}-jre-headless) or set "
    "JAVA_HOME to where one is"
)


class Java(NamedTuple):
    """A Java that can be started."""

    path: str
    version: str
    major: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The one that Spark's own scripts take: that of JAVA_HOME, or else the first on PATH.

    Raises SparkJobError when there is none, when it does not start, and when it is too old.
    """
    path = _path(os.environ if environment is None else environment)
    version, major = _version(path)
    if major < LEAST_MAJOR:
        raise SparkJobError(
            f"Spark needs Java {LEAST_MAJOR} or newer, and {path} is Java {version}: {_ADVICE}."
        )
    return Java(path, version, major)


def _path(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        path = os.path.join(home, "bin", "java")
        if not os.access(path, os.X_OK) or os.path.isdir(path):
            raise SparkJobError(
                f"JAVA_HOME is {home}, and there is no program {path}: set JAVA_HOME to the "
                f"directory of a Java {LEAST_MAJOR} or newer, or unset it to use the one on PATH."
            )
        return path
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is None:
        raise SparkJobError(f"Spark needs Java, and there is no java on PATH: {_ADVICE}.")
    return found


def _version(path: str) -> tuple[str, int]:
    try:
        asked = subprocess.run(
            [path, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkJobError(f"{path} can not be started ({error}): {_ADVICE}.") from error
    found = _VERSION.search(asked.stdout)
    if found is None:
        said = asked.stdout.strip().splitlines() or [f"exit code {asked.returncode}"]
        raise SparkJobError(f"{path} does not tell its version ({said[-1]}): {_ADVICE}.")
    return found[1], int(found[2])
