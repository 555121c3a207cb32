"""What whoever started this process has already decided about Spark's settings."""

import os
import re
import shlex
from collections.abc import Mapping
from typing import Final

SUBMIT_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_SHELL: Final = "pyspark-shell"
_FLAGS: Final = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--total-executor-cores": "spark.cores.max",
    "--num-executors": "spark.executor.instances",
    "--packages": "spark.jars.packages",
    "--jars": "spark.jars",
    "--py-files": "spark.submit.pyFiles",
}
_PROPERTY: Final = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(.*)")


def submitted_settings(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Settings from spark-submit, PYSPARK_SUBMIT_ARGS and spark-defaults.conf.

    Python does not see them before Java has started, and then what a program sets would override
    them silently.
    """
    if "PYSPARK_GATEWAY_PORT" in environment:
        return _of_the_running_java()
    flags = _flags(shlex.split(environment.get(SUBMIT_ARGUMENTS, "")))
    folder = environment.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    file = flags.pop("--properties-file", os.path.join(folder, "spark-defaults.conf"))
    return _properties(file) | flags


def submit_arguments(settings: Mapping[str, str], before: str = "") -> str:
    """A value of PYSPARK_SUBMIT_ARGS that decides `settings`, after what it said before."""
    words = [word for word in shlex.split(before) if word != _SHELL]
    for key, value in settings.items():
        words += ["--conf", f"{key}={value}"]
    return shlex.join([*words, _SHELL])


def _of_the_running_java() -> dict[str, str]:
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _flags(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    left = iter(words)
    for word in left:
        flag, equals, value = word.partition("=")
        if flag not in {*_FLAGS, "--conf", "-c", "--properties-file"}:
            continue
        given = value if equals else next(left, "")
        if flag in ("--conf", "-c"):
            key, _, text = given.partition("=")
            found[key] = text
        else:
            found[_FLAGS.get(flag, flag)] = given
    return found


def _properties(path: str) -> dict[str, str]:
    """A file of Java's properties: a key and its value a line."""
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file]
    pairs = [_PROPERTY.match(line) for line in lines if not line.startswith(("#", "!"))]
    return {pair[1]: pair[2] for pair in pairs if pair is not None}
