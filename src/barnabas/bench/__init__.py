"""Knows how fast a broker is: load generators, the limit server it is compared with, reports.

It does not know how a broker works inside: it sees addresses, processes and bytes on a socket.
"""
