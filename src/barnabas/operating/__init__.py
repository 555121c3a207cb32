"""What whoever operates a cluster wants to know and to do, as pure decisions.

Knows what brokers have told of a cluster at one moment: whether that is healthy, what changed
since another moment, which replicas to move, and which broker to restart next. Does not know how
to ask a broker, how to wait, or how anything is shown.
"""
