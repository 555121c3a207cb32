"""One partition's bytes on disk: segments, indexes, recovery, retention, producers, epochs.

Knows files, batch headers and time. Knows nothing of requests, replicas, the cluster or the loop.
"""
