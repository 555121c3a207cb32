"""Topics as DataFrames and back: the data source and sink that Spark finds as `barnabas`.

Knows Spark, Arrow and Kafka's protocol as a client sees it. Does not know any room of the broker:
it talks to a Barnabas, or to any other Kafka, over `link` alone.
"""
