"""Which Java is taken, and what is said when there is none that will do."""

import stat
from pathlib import Path

import pytest

from barnabas.spark.errors import SparkJobError
from barnabas.spark.java import find_java


def fake_java(home: Path, says: str, code: int = 0) -> Path:
    """A program that answers `-version` as a Java would, on stderr."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.parametrize(
    ("says", "version", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', "17.0.15", 17),
        ('java version "21" 2023-09-19 LTS', "21", 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Da=b\nopenjdk version "25-ea" 2025-09-16', "25-ea", 25),
    ],
)
def test_versions(tmp_path: Path, says: str, version: str, major: int) -> None:
    program = fake_java(tmp_path, says)
    assert find_java({"JAVA_HOME": str(tmp_path)}) == (str(program), version, major)


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", 'openjdk version "21.0.1" 2023-10-17')
    on_path = fake_java(tmp_path / "other", 'openjdk version "17.0.1" 2021-10-19')
    path = {"PATH": str(on_path.parent)}
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), **path}).major == 21
    assert find_java(path).major == 17
    assert find_java({"JAVA_HOME": "", **path}).path == str(on_path)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16.0.2"])
def test_too_old(tmp_path: Path, version: str) -> None:
    program = fake_java(tmp_path, f'openjdk version "{version}" 2020-01-01')
    with pytest.raises(SparkJobError) as refusal:
        find_java({"JAVA_HOME": str(tmp_path)})
    assert f"{program} is Java {version}" in str(refusal.value)
    assert "install Java 17 or newer" in str(refusal.value)


def test_no_java(tmp_path: Path) -> None:
    with pytest.raises(SparkJobError, match=r"no java on PATH: install Java 17 or newer"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_that_leads_nowhere(tmp_path: Path) -> None:
    home = tmp_path / "gone"
    with pytest.raises(SparkJobError, match=f"JAVA_HOME is {home}.*unset it"):
        find_java({"JAVA_HOME": str(home)})
    (home / "bin" / "java").mkdir(parents=True)
    with pytest.raises(SparkJobError, match="JAVA_HOME"):
        find_java({"JAVA_HOME": str(home)})


def test_a_java_that_does_not_start(tmp_path: Path) -> None:
    fake_java(tmp_path / "stub", "Unable to locate a Java Runtime.", code=1)
    with pytest.raises(SparkJobError, match=r"Unable to locate a Java Runtime.*install Java 17"):
        find_java({"JAVA_HOME": str(tmp_path / "stub")})
    (broken := fake_java(tmp_path / "broken", "")).write_text("#!/nowhere/at/all\n")
    with pytest.raises(SparkJobError, match=f"{broken} can not be started"):
        find_java({"JAVA_HOME": str(tmp_path / "broken")})
