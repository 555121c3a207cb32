"""The composition root: picks the real world and starts a broker in it.

Knows `world`, uvloop and signals, so that no other room needs to. Knows nothing of the protocol.
"""
