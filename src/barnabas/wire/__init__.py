"""Bytes to messages and back, without a socket: headers, bodies, records, and the table of APIs.

Knows every version of every message and how it lies in bytes. Does not know what a message is
for, who sent it, or what anyone will answer.
"""
