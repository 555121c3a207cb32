"""Asking: SQL over topics and their archives.

Knows which relations a query names, and where each offset of a topic comes from: a file or the
broker. Does not know how results are printed.
"""
