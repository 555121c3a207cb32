"""One file per API key: what a request means and what it is answered.

Knows messages, topics and partitions. Knows nothing of sockets, files or how bytes are framed.
"""
