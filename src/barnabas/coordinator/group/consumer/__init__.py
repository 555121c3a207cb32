"""Groups whose members only heartbeat and are assigned by the coordinator (KIP-848)."""
