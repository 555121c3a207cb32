"""This room knows the bytes of a record batch: header, records, headers, codecs, control records.

It does not know topics, files, connections or who asks: bytes come in, values go out.
"""
