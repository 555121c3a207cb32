"""What the runtime has to be told about the records of a topic."""

from typing import Protocol, TypeVar

R = TypeVar("R")


class Codec(Protocol[R]):
    """Records to bytes and back."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Key and value."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> R | None:
        """The record, or None for one that is of no use here. DecodeError if damaged."""
        ...
