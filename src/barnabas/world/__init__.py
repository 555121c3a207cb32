"""The real outside: this machine's clock, chance, threads, disk and metadata store.

Knows the operating system and SQLite. Does not know topics, partitions, requests or logs.
"""
