"""Groups whose members join, elect a leader and let it assign (JoinGroup and SyncGroup).

Knows who is a member of which generation, who waits for whom, and for how long. Does not know what
an assignment says, what is committed, or what other kinds of groups do.
"""
