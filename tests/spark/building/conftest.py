"""One broker for all tests here; a folder and topics of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.building.building_world import World

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.testing import Broker


@pytest.fixture(scope="module")
def building_cluster(shared_broker: Broker) -> Iterator[Cluster]:
    servers = shared_broker.bootstrap_servers
    cluster = cluster_of(Connection.from_options({"kafka.bootstrap.servers": servers}))
    yield cluster
    cluster.close()


@pytest.fixture
def world(
    spark: SparkSession, shared_broker: Broker, building_cluster: Cluster, tmp_path: Path
) -> World:
    return World(spark, building_cluster, shared_broker.bootstrap_servers, tmp_path)
