"""Pipelines: topics in, topics and tables out, declared in a YAML file with SQL in it.

Knows what a pipeline file may say, how it becomes streaming queries, and how those are kept
running and watched. Does not know how records are read from or written to topics (`source` and
`sink` do), nor how a table keeps its files together (`tables` does).
"""
