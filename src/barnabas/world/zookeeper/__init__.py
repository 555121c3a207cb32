"""The coordination tree on a real ZooKeeper, by kazoo. The only room that imports kazoo."""

import logging

from barnabas.world.zookeeper.coordination import ZooKeeperCoordination
from barnabas.world.zookeeper.options import Tls, ZooKeeperOptions

# What kazoo has to say goes where the process sends its log, and otherwise nowhere: without a
# handler Python would print every reconnection on stderr.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

__all__ = ["Tls", "ZooKeeperCoordination", "ZooKeeperOptions"]
