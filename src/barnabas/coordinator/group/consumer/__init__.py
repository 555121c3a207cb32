"""Groups whose members only heartbeat and are assigned by the coordinator (KIP-848).

Knows epochs, target and current assignments, and who must release what before another gets it.
Knows neither committed offsets nor the classic protocol, and not how partitions are spread.
"""
