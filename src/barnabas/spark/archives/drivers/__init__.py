"""Job files that `barnabas archive` and `barnabas replay` run as processes of their own.

In a folder by themselves: a job's folder comes first where Python looks for modules.
"""
