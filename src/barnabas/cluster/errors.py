"""What the cluster refuses with, besides the answers of the protocol."""

from typing import Final

from barnabas.cluster.image import PartitionState
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.coordination import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

CHANGED_MEANWHILE: Final = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)
"""What refuses a commit because somebody else was faster: look again. Any other refusal stays."""


class NotControllerError(KafkaError):
    """Another broker is the controller, or nobody is; what was asked for may have been done if
    this one was the controller until now."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.not_controller, "This is not the correct controller.")


class StateChangedError(Exception):
    """The stored state of a partition is another than the one that was to be replaced."""

    def __init__(self, actual: PartitionState) -> None:
        super().__init__(f"the stored state is {actual}")
        self.actual = actual
