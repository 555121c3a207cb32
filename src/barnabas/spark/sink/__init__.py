"""DataFrames written to topics: rows to record batches, at least once or exactly once.

Knows partitioning, sequences and transactions as a producer sees them. Does not know where the
rows come from.
"""
