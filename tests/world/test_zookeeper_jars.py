"""Where Java and ZooKeeper are looked for, and what is said when they are not there."""

import importlib.util
from pathlib import Path

import pytest

from barnabas.model.errors import BarnabasError
from barnabas.world.zookeeper_jars import find_jars, find_java, version


def test_the_jars_of_pyspark_are_enough() -> None:
    jars = find_jars({})
    assert any(jar.name.startswith("zookeeper-3.") for jar in jars)
    assert any(jar.name.startswith("zookeeper-jute-") for jar in jars)
    assert len(jars) < 60, "the hundreds that Spark needs stay closed"


def test_zookeeper_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("zookeeper-3.8.4.jar", "anything.jar"):
        (tmp_path / "lib" / name).touch()
    found = find_jars({"ZOOKEEPER_HOME": str(tmp_path)})
    assert [jar.name for jar in found] == ["anything.jar", "zookeeper-3.8.4.jar"]
    monkeypatch.setenv("ZOOKEEPER_HOME", str(tmp_path))
    assert version() == "3.8.4"


def test_a_home_without_a_zookeeper(tmp_path: Path) -> None:
    with pytest.raises(BarnabasError, match=r"no zookeeper-3\.\*\.jar in .*: set it to"):
        find_jars({"ZOOKEEPER_HOME": str(tmp_path)})


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BarnabasError, match=r"PySpark is not installed\): install the extra"):
        find_jars({})


def test_java_of_java_home_and_of_path(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_java({"JAVA_HOME": str(tmp_path)}) == str(program)
    assert find_java({"PATH": str(program.parent)}) == str(program)
    with pytest.raises(BarnabasError, match="there is no program"):
        find_java({"JAVA_HOME": str(tmp_path / "elsewhere")})
    with pytest.raises(BarnabasError, match="no java on PATH: install one"):
        find_java({"PATH": str(tmp_path)})
