"""A pretended ZooKeeper ensemble: one authoritative tree, sessions that run out, members that lag.

`Ensemble` is the servers, `Ensemble.client(machine)` what a broker on that machine holds (the
coordination port). Everything follows from the loop's seed. What can be made to go wrong:

* `faults`: chances and bounds that hold from now on (see `Faults`);
* `cut`/`heal` (also one way) and the cuts of the simulated network between a machine and "zk";
* `lose_next`: the next commit of a machine loses its answer, before or after it took effect;
* `expire`, `break_connection`, `lose_quorum`/`regain_quorum`, `pause`/`resume`, `kill`.
"""

from barnabas.sim.zookeeper.client import SimCoordination
from barnabas.sim.zookeeper.ensemble import Ensemble
from barnabas.sim.zookeeper.faults import Faults
from barnabas.sim.zookeeper.tree import Transaction

__all__ = ["Ensemble", "Faults", "SimCoordination", "Transaction"]
