"""One partition's place in the cluster: leader, committed offsets, who waits for which.

Knows logs, epochs and waiters. Knows nothing of requests, sockets or how topics come to exist.
"""
