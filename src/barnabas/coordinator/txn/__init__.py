"""Transactions: who owns a transactional id, which partitions it has written to, how it ends.

Knows neither logs nor connections: markers are written by whoever implements `Markers`.
"""
