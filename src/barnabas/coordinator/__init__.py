"""Replicated state machines on internal topics: decides who owns which partition, remembers
offsets, as plain synchronous code.

Knows no sockets, no frames, no API versions and no files.
"""
