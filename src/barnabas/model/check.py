"""`require()`: an assertion that survives `python -O`."""


class BrokenInvariantError(AssertionError):
    """The program's own reasoning is wrong; carrying on could damage data."""


def require(condition: bool, message: str) -> None:
    """Raise unless `condition` holds. For our own mistakes, never for bad input."""
    if not condition:
        raise BrokenInvariantError(message)
