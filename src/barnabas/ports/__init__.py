"""What the outside can do for us: clock, files, chance, slow work, coordination.

Protocols only. Knows no implementation: `world` has the real ones, `sim` the pretended ones.
"""
