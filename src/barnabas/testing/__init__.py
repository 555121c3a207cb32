"""A real broker for tests: on a free port, in memory or on disk, over the real protocol.

Knows how to start and stop one. Knows nothing of the client library that will use it.
"""

from barnabas.testing.broker import Broker

__all__ = ["Broker"]
