"""Log compaction: which log is next, what of it stays, and how new files take the old ones' place.

Knows batches, keys, segments and files. Knows nothing of the loop, of requests or of processes:
cleaning is a plain function that may run anywhere, and what it did is swapped in by its caller.
"""
