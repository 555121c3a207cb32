"""What can go wrong, in Kafka's own words.

`KafkaError` carries the protocol's error code to a client; `BarnabasError` is one sentence for
the person at the terminal. Both say what to do where that is known.
"""

from barnabas.model.kio_errors import ErrorCode
from barnabas.model.limits import ERROR_MESSAGE_CHARS_MAX

__all__ = ["BarnabasError", "DecodeError", "ErrorCode", "KafkaError"]


class KafkaError(Exception):
    """A request (or one part of it) is answered with this error code and message."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        if len(message) > ERROR_MESSAGE_CHARS_MAX:
            # In the middle, where it quotes somebody: what is wrong stands at the end.
            half = ERROR_MESSAGE_CHARS_MAX // 2
            message = f"{message[:half]}...{message[-half:]}"
        super().__init__(message or code.name.upper())
        self.code = code
        self.message = message


class DecodeError(Exception):
    """Bytes from outside do not say what they should; the sender's connection is closed."""


class BarnabasError(Exception):
    """Something a person must mend: shown as one sentence, and the process exits non-zero."""
