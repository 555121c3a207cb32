"""The two ways a batch can be wrong that a caller answers in a way of its own."""

from barnabas.model.errors import DecodeError


class UnknownCodecError(DecodeError):
    """The attributes name a codec that does not exist (UNSUPPORTED_COMPRESSION_TYPE)."""


class RecordError(DecodeError):
    """Some records of a batch are refused (INVALID_RECORD); `indexes` says which of them.

    A record that can not be read ends the reading, so it is the only one named; of records that
    can be read but lack a key, each is named.
    """

    def __init__(self, message: str, indexes: tuple[int, ...]) -> None:
        super().__init__(message)
        self.indexes = indexes

    @property
    def index(self) -> int:
        """The first refused record, counted from 0."""
        return self.indexes[0]
