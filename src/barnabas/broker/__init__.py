"""One node, assembled from rooms and ports: starting, housekeeping, stopping.

Knows which room needs which. Knows nothing of the real world: clock, files and store are handed in.
"""
