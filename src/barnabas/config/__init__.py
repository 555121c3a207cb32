"""Every broker and topic key once: its name, type, default, reason and what it accepts.

Knows no files, no sockets, no topics that exist and nobody who reads a value.
"""
