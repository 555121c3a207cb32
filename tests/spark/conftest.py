"""One Spark session for all tests here, and a broker in this process for each that asks."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.testing import Broker

_DESCRIPTORS_MAX = 700


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2,1]` with few shuffle partitions; every Spark test of this process shares it."""
    if len(os.listdir("/proc/self/fd")) > _DESCRIPTORS_MAX:
        pytest.fail("py4j's callbacks end where descriptors pass 1023: run `pytest tests/spark`")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    home: Path = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("barnabas-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.driver.memory", "1g")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """A broker in memory for the whole run: give each test topics of its own."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker in memory of the test's own, to stop and start as it likes."""
    with Broker() as broker:
        yield broker
