"""A Spark session that knows both connectors."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from tests.compat.clients.spark.jars import connector_jars


def both_connectors(home: Path, settings: Mapping[str, str] | None = None) -> SparkSession:
    """`local[2]`, with the official connector's jars; ours is found by Spark itself."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    values = {
        "spark.jars": ",".join(str(path) for path in connector_jars()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
        "spark.driver.memory": "2g",
        **(settings or {}),
    }
    builder = SparkSession.builder.master("local[2]").appName("both-connectors")
    for key, value in values.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
