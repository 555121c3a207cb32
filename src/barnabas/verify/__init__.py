"""Histories in, verdicts out: what clients did and were told, and which of it can not be right.

Knows what a log with transactions promises to those who write and read it. Knows no broker, no
client and no network: a history is lines of text, whoever recorded them.
"""
