"""Lets Spark find `format("barnabas")` without registration: it imports every `pyspark_*`."""

from barnabas.spark.datasource import BarnabasDataSource as DefaultSource

__all__ = ["DefaultSource"]
