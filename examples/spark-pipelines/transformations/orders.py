"""A topic of orders becomes a table; what it adds up to, a view; the large ones, another topic."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SERVERS = os.environ.get("BARNABAS_SERVERS", "127.0.0.1:9092")

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Each record of the topic once: a run goes on where the last one ended."""
    records = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("columns", "value")
        .load()
    )
    order = f.from_json(f.col("value").cast("string"), "id BIGINT, country STRING, amount DOUBLE")
    return records.select(order.alias("order")).select("order.*")


@dp.materialized_view
def by_country() -> DataFrame:
    """Computed anew by each run, from the whole table."""
    return spark.read.table("orders").groupBy("country").agg(f.sum("amount").alias("total"))


dp.create_sink(
    "large_orders",
    "barnabas",
    {
        "kafka.bootstrap.servers": SERVERS,
        "topic": "large-orders",
        "delivery": "exactly-once",
    },
)


@dp.append_flow(target="large_orders")
def only_large() -> DataFrame:
    """The rows that are new in the table since the last run."""
    rows = spark.readStream.table("orders").where("amount >= 100")
    records = rows.select(
        f.col("country").alias("key"), f.to_json(f.struct("id", "amount")).alias("value")
    )
    # Exactly once wants one task for each partition of the topic. `to_topic` would see to that,
    # but asks for the schema, which can not be known yet; one task for all of them does as well.
    return records.coalesce(1)
