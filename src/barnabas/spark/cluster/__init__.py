"""A Kafka cluster as the driver and the tasks of a Spark job ask it, over blocking links.

Knows who leads what, how to ask again, and the requests that source and sink need. Does not know
Spark, DataFrames or what the answers are for.
"""
