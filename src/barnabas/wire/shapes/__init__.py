"""Messages whose newest version can no longer say what an older one could, one file each.

Handlers see one dataclass for each message, whatever version it came in. Mostly that is kio's of
the newest version; the ones here extend it by what only older versions carry: topic names where
the newest has ids, and a few fields Kafka has dropped. They know no more than that.
"""
