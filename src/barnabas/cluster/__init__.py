"""Who is alive, what topics exist, who leads their partitions, and how that is changed.

Knows no record, no log directory, no socket and no request or response of the protocol.
"""
