"""A whole cluster in one process, from one seed: brokers, their ZooKeeper, clients, and faults.

`run.simulate(seed)` tells one story: the cluster starts, clients write and read while faults
come as `plan` has drawn them, then everything heals, and all that was promised must be there.
`invariants` looks after every event.
"""
