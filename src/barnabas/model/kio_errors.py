"""The one place that first imports kio, and does so without waking hypothesis.

kio registers property-test strategies whenever hypothesis can be imported, which costs a
broker in a development environment 0.3 s of start-up and 12 MB it never uses. Unless
hypothesis is loaded already, it is hidden while kio's base modules load.
"""

import sys

_hide = "hypothesis" not in sys.modules
if _hide:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
try:
    from kio.schema.errors import ErrorCode
finally:
    if _hide:
        del sys.modules["hypothesis"]

__all__ = ["ErrorCode"]
