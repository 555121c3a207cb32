"""Topics and partitions by name, and which names are allowed."""

import re
from typing import NamedTuple

from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    @property
    def directory(self) -> str:
        """The name of the partition's folder in the data directory."""
        return f"{self.topic}-{self.partition}"


def parse_directory(name: str) -> TopicPartition | None:
    """The partition a folder name stands for, or None when it is no partition's folder."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    if len(number) > 10 or not _LEGAL.fullmatch(topic):
        return None
    return TopicPartition(topic, int(number))


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION with the reason, as Kafka words it, for an illegal name."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = '"." and ".." are not allowed'
    elif len(name) > limits.TOPIC_NAME_CHARS_MAX:
        problem = (
            f"the length of '{name[:32]}…' is longer than the max allowed length "
            f"{limits.TOPIC_NAME_CHARS_MAX}"
        )
    elif not _LEGAL.fullmatch(name):
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    if problem:
        raise KafkaError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str:
    """Two topics with the same key would share metric names: Kafka refuses the second."""
    return name.replace(".", "_")
