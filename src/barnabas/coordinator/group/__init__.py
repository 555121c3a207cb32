"""Consumer groups: who is a member, who owns what, and how far each group has got.

Knows when what must be written and answered; does neither itself, and never waits.
"""
