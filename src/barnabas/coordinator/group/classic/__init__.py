"""Groups whose members join, elect a leader and let it assign (JoinGroup and SyncGroup)."""
