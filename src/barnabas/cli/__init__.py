"""The command line: what each command asks for, does and prints, one file a command group.

Knows people, terminals and exit codes. Knows nothing of how a broker does its work.
"""
