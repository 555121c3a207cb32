"""What every coordinator needs: load by replay, decide, append, answer once that is committed.

Knows no groups, no transactions and no queues; it is handed shards that do.
"""
