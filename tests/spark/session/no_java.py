"""What is left of Java's errors when Java itself is not."""

from typing import Any, Final

from py4j.protocol import (  # type: ignore[import-untyped]
    Py4JError,
    Py4JJavaError,
    Py4JNetworkError,
)

UNANSWERED: Final = Py4JError("An error occurred while calling o2769.toString")
"""As py4j says it when Java ends in the midst of a call."""
UNREACHABLE: Final = Py4JNetworkError("Answer from Java side is empty")


class _Exception:
    """It can not be asked for its text any more."""

    _target_id = "o9"

    @property
    def _gateway_client(self) -> Any:
        raise UNREACHABLE


MUTE: Final = Py4JJavaError("An error occurred while calling o8.start.\n", _Exception())
