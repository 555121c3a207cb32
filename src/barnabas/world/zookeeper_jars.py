"""Where a real ZooKeeper comes from: a Java, and the jars of ZOOKEEPER_HOME or of PySpark."""

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.model.errors import BarnabasError

_NEEDED: Final = (
    "zookeeper-3.*.jar",
    "zookeeper-jute-*.jar",
    "metrics-core-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "snappy-java-*.jar",
    "commons-io-*.jar",
    "commons-cli-*.jar",
)
"""Of the hundreds that Spark brings: each one that is left out is not opened at the start."""

_HOW: Final = (
    "install the extra (pip install 'barnabas[cluster]'), or unpack a ZooKeeper and set "
    "ZOOKEEPER_HOME to its directory"
)


def find_java(environment: Mapping[str, str] | None = None) -> str:
    """The program that runs Java: that of JAVA_HOME, or else the first on PATH.

    Raises BarnabasError when there is none.
    """
    known = os.environ if environment is None else environment
    home = known.get("JAVA_HOME")
    if home:
        program = Path(home, "bin", "java")
        if not os.access(program, os.X_OK) or program.is_dir():
            raise BarnabasError(
                f"JAVA_HOME is {home}, and there is no program {program}: set JAVA_HOME to the "
                "directory of a Java, or unset it to use the one on PATH."
            )
        return str(program)
    found = shutil.which("java", path=known.get("PATH", os.defpath))
    if found is None:
        raise BarnabasError(
            "ZooKeeper needs Java, and there is no java on PATH: install one (such as "
            "openjdk-17-jre-headless), or set JAVA_HOME to where one is."
        )
    return found


def find_jars(environment: Mapping[str, str] | None = None) -> Sequence[Path]:
    """The class path of a ZooKeeper server.

    Raises BarnabasError when there is none.
    """
    known = os.environ if environment is None else environment
    home = known.get("ZOOKEEPER_HOME")
    if home:
        return _of_home(Path(home))
    package = _pyspark()
    jars = _matching(package / "jars") if package else ()
    if not _has_server(jars):
        where = f"the PySpark in {package} has none" if package else "PySpark is not installed"
        raise BarnabasError(f"There is no ZooKeeper to start ({where}): {_HOW}.")
    return jars


def version() -> str:
    """Of the ZooKeeper that would be started, as its jar is named."""
    names = [jar.stem for jar in find_jars() if jar.match(_NEEDED[0])]
    return names[0].removeprefix("zookeeper-")


def _of_home(home: Path) -> Sequence[Path]:
    jars = sorted((home / "lib").glob("*.jar"))
    if not _has_server(jars):
        raise BarnabasError(
            f"ZOOKEEPER_HOME is {home}, and there is no zookeeper-3.*.jar in {home / 'lib'}: set "
            "it to the directory of an unpacked ZooKeeper, or unset it to use the one in PySpark."
        )
    return jars


def _pyspark() -> Path | None:
    """Where PySpark is, without importing it, which takes a second."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations)))


def _matching(folder: Path) -> Sequence[Path]:
    return sorted({jar for pattern in _NEEDED for jar in folder.glob(pattern)})


def _has_server(jars: Sequence[Path]) -> bool:
    return any(jar.match(_NEEDED[0]) for jar in jars)
