"""Real brokers for tests: one on a free port, in memory or on disk, or a cluster of them.

Knows how to start, stop and kill them. Knows nothing of the client library that will use them.
"""

from barnabas.testing.broker import Broker
from barnabas.testing.cluster import Cluster

__all__ = ["Broker", "Cluster"]
