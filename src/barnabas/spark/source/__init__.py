"""Topics read as DataFrames: options, planning on the driver, reading in the tasks.

Knows offsets, ranges of them and how records become Arrow columns. Does not know how rows are
written, nor what a query does with them.
"""
