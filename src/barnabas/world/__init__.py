"""The real outside: this machine's clock, chance, threads, disk and metadata store.

Knows the operating system, SQLite and ZooKeeper.
Does not know topics, partitions, requests or logs.
"""
