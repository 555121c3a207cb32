"""Archives: a topic's records in a table, and back into a topic.

Knows which offsets of which partition are in which file, and how an archive grows, is compacted
and replayed. Does not know pipelines, nor how a table commits (`tables` does).
"""
