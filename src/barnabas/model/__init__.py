"""The nouns every room shares: names, errors, limits, checks.

Knows no bytes, no files, no sockets and no time.
"""
