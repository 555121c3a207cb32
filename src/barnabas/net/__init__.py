"""Connections: who may connect, frames in, answers out in order, and what a peer may cost us.

Knows frames, sockets and limits. Knows no API, no topic, no record and no file.
"""
