"""What a client is told when the cluster does not make a change, or nobody knows whether it did."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from barnabas.model.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.ports.coordination import CoordinationError, CoordinationLostError

logger = logging.getLogger(__name__)

R = TypeVar("R")

STORE_ERRORS: Final = (CoordinationError, CoordinationLostError, BarnabasError)
"""The store has refused, did not answer, or could not be written (a full disk, for one)."""


def store_problem(error: Exception) -> KafkaError:
    """The error for the client. Only what may pass by itself is one that clients try again."""
    if isinstance(error, CoordinationLostError):
        return KafkaError(
            ErrorCode.request_timed_out, f"The change may have been stored, or not: {error}."
        )
    logger.error("a change was not stored: %s", error)
    if isinstance(error, CoordinationError):
        return KafkaError(
            ErrorCode.unknown_server_error, f"The change was refused by the store: {error}."
        )
    return KafkaError(ErrorCode.kafka_storage_error, f"The change was not stored. {error}")


async def results_of(
    change: Awaitable[list[R]], refused: Callable[[KafkaError], list[R]]
) -> list[R]:
    """The results of a change; if it could not be stored, what `refused` makes of that. So also
    for a broker that is not the controller, or is no more."""
    try:
        return await change
    except KafkaError as error:
        return refused(error)
    except STORE_ERRORS as error:
        return refused(store_problem(error))
