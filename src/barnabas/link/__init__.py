"""One connection to one broker: frames out, frames in, each answer to its question.

Knows the protocol's framing, correlation and versions. Does not know which broker to ask, what
to do about an error in an answer, or when to try again.
"""
