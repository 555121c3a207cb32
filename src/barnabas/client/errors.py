"""What can go wrong for a user of the client: one sentence that says what to do, and Kafka's code.

Nothing of confluent-kafka's own errors reaches a user; `translated` is the one place that reads
them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Never

from barnabas.model.errors import BarnabasError, ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException


class ClientError(BarnabasError):
    """Base of all: `str(error)` is the sentence, `code` is Kafka's name of the error.

    `retriable` says that the same call may succeed later; `fatal` that this client never will
    again, and a new one must be made.
    """

    def __init__(
        self, sentence: str, *, code: str = "CLIENT", retriable: bool = False, fatal: bool = False
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.retriable = retriable
        self.fatal = fatal


class ConfigError(ClientError, ValueError):
    """An argument or setting makes no sense; nothing was done."""


class ClosedError(ClientError):
    """The client has been closed."""


class TimedOutError(ClientError, TimeoutError):
    """The answer did not come in time; whether the broker acted is not known."""


class BrokerUnavailableError(ClientError, ConnectionError):
    """No broker answers."""


class TopicNotFoundError(ClientError, LookupError):
    """There is no such topic, or no such partition of it."""


class TopicExistsError(ClientError):
    """There is such a topic already."""


class GroupNotFoundError(ClientError, LookupError):
    """There is no such consumer group."""


class GroupNotEmptyError(ClientError):
    """The group has members; what was asked needs it to be empty."""


class NotAllowedError(ClientError, PermissionError):
    """Who you are could not be proven, or may not do this."""


class DeliveryError(ClientError):
    """A message was not acknowledged; `lost` says how many were not."""

    def __init__(
        self,
        sentence: str,
        *,
        code: str = "CLIENT",
        retriable: bool = False,
        fatal: bool = False,
        lost: int = 1,
    ) -> None:
        super().__init__(sentence, code=code, retriable=retriable, fatal=fatal)
        self.lost = lost


class CommitError(ClientError):
    """Offsets were not committed; what they stood for may be delivered again."""


class LedgerError(ClientError):
    """The ledger's database cannot do what exactly-once needs."""


class FencedError(LedgerError):
    """Another consumer handled the message first; this transaction was rolled back."""


class TransactionError(ClientError):
    """A transaction was aborted: nothing that was sent in it will be seen."""


class ProducerFencedError(TransactionError):
    """Another producer has taken over the transactional id; this one can do nothing any more."""


_START: Final = (
    "start one with `barnabas up`, or name another with bootstrap_servers; `barnabas doctor` "
    "tells what is wrong with one that runs"
)
_UNAVAILABLE: Final = frozenset(
    {"TRANSPORT", "ALL_BROKERS_DOWN", "RESOLVE", "BROKER_NOT_AVAILABLE"}
)
_TIMED_OUT: Final = frozenset(
    {"TIMED_OUT", "TIMED_OUT_QUEUE", "MSG_TIMED_OUT", "REQUEST_TIMED_OUT"}
)
_NO_TOPIC: Final = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID"})
_NOT_ALLOWED: Final = frozenset({"AUTHENTICATION", "SSL"})
MOVING: Final = frozenset(
    {
        "NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "NOT_CONTROLLER", "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    }
)  # fmt: skip
"""The one to ask is just changing: a moment later the same question is answered."""
_RETRIABLE: Final = (
    MOVING
    | _UNAVAILABLE
    | _TIMED_OUT
    | _NO_TOPIC
    | {
        "NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "KAFKA_STORAGE_ERROR", "THROTTLING_QUOTA_EXCEEDED", "REBALANCE_IN_PROGRESS",
        "UNSTABLE_OFFSET_COMMIT", "CORRUPT_MESSAGE", "WAIT_COORD",
    }
)  # fmt: skip
_KINDS: Final[dict[str, type[ClientError]]] = {
    "TOPIC_ALREADY_EXISTS": TopicExistsError,
    "UNKNOWN_PARTITION": TopicNotFoundError,
    "GROUP_ID_NOT_FOUND": GroupNotFoundError,
    "NON_EMPTY_GROUP": GroupNotEmptyError,
    "GROUP_SUBSCRIBED_TO_TOPIC": GroupNotEmptyError,
    "INVALID_ARG": ConfigError,
    "INVALID_TOPIC_EXCEPTION": ConfigError,
    "INVALID_CONFIG": ConfigError,
    "INVALID_PARTITIONS": ConfigError,
    "INVALID_REPLICATION_FACTOR": ConfigError,
}
_ADVICE: Final[dict[str, str]] = {
    "FENCED_INSTANCE_ID": "another consumer has taken over this instance_id: give each consumer "
    "one of its own",
    "INCONSISTENT_GROUP_PROTOCOL": "the group's other members assign partitions in another way: "
    "give all the same `partition.assignment.strategy` and the same protocol",
    "MESSAGE_TOO_LARGE": "send less at once, or raise the topic's `max.message.bytes` and the "
    "producer's `message.max.bytes`",
    "MSG_SIZE_TOO_LARGE": "send less at once, or raise the producer's `message.max.bytes`",
    "NON_EMPTY_GROUP": "stop the group's consumers first",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop the group's consumers of that topic first",
    "INVALID_TRANSACTION_TIMEOUT": "make transaction_timeout less than the broker's "
    "`transaction.max.timeout.ms`",
    "UNSUPPORTED_FEATURE": "the broker does not offer what this needs",
    "UNSUPPORTED_VERSION": "the broker does not offer what this needs",
    "REBALANCE_IN_PROGRESS": "the group is just dividing its partitions anew: iterate on, then "
    "try again",
}


def code_of(error: "KafkaError") -> str:
    """Kafka's own name; for what only the client library knows, the library's."""
    number = error.code()
    if number in ErrorCode._value2member_map_:
        return ErrorCode(number).name.upper()
    return error.name().lstrip("_")


def translated(error: "KafkaError | KafkaException | Exception", doing: str) -> ClientError:
    """The same in our words. `doing` says what failed, as in "creating the topic events"."""
    from confluent_kafka import KafkaError

    cause = error
    if not isinstance(cause, KafkaError) and cause.args:
        cause = cause.args[0]
    if not isinstance(cause, KafkaError):
        return ClientError(f"{_begun(doing)} failed: {str(cause).rstrip('.')}.")
    code = code_of(cause)
    kind, sentence = _worded(code, cause.str().strip().rstrip("."), doing)
    retriable = cause.retriable() or code in _RETRIABLE
    return kind(sentence, code=code, retriable=retriable and not cause.fatal(), fatal=cause.fatal())


def _worded(code: str, said: str, doing: str) -> tuple[type[ClientError], str]:
    if code in _UNAVAILABLE:
        return BrokerUnavailableError, f"{_begun(doing)} failed: no broker answers: {_START}."
    if code in _TIMED_OUT:
        return TimedOutError, f"{_begun(doing)} took too long ({code}): is the broker up? {_START}."
    if code in _NO_TOPIC:
        missing = f"there is no such topic or partition ({code})"
        advice = "Admin().create_topic(name) makes a topic"
        return TopicNotFoundError, f"{_begun(doing)} failed: {missing}: {advice}."
    if code in _NOT_ALLOWED or code.endswith(("AUTHORIZATION_FAILED", "AUTHENTICATION_FAILED")):
        return NotAllowedError, f"{_begun(doing)} failed: {said} ({code})."
    advice = f": {_ADVICE[code]}" if code in _ADVICE else ""
    return _KINDS.get(code, ClientError), f"{_begun(doing)} failed: {said} ({code}){advice}."


def _begun(doing: str) -> str:
    return doing[:1].upper() + doing[1:]


def no_such_topic(topic: str) -> TopicNotFoundError:
    """What to do about it."""
    return TopicNotFoundError(
        f"There is no topic {topic}: Admin().create_topic({topic!r}) makes one.",
        code="UNKNOWN_TOPIC_OR_PARTITION",
        retriable=True,
    )


def config_error(sentence: str) -> Never:
    """Refuse an argument."""
    raise ConfigError(sentence, code="INVALID_ARG")


@contextmanager
def translating(doing: str) -> Iterator[None]:
    """Turn what confluent-kafka raises into a ClientError."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise translated(error, doing) from error
