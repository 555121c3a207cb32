"""Tables: Parquet files, and a log of which of them count.

Knows how files become visible together or not at all; the log is Delta Lake's, so that anything
that reads Delta tables reads these. Does not know where rows come from, nor about topics.
"""
