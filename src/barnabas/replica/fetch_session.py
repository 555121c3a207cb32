"""A follower's side of a fetch session (KIP-227): the leader remembers what it was asked for, so
that a request names only what has changed since, and an answer only what there is to tell.

A partition that is not named is asked for as before: that says once more what the follower has. So
whatever is left out of a request for a while must be taken out of the session, too.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from barnabas.model.errors import ErrorCode
from barnabas.wire.fetch import FetchPartition, FetchTopic, ForgottenTopic

_NONE: Final = 0
_FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_OUT_OF_STEP: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found.value,
        ErrorCode.invalid_fetch_session_epoch.value,
        ErrorCode.fetch_session_topic_id_error.value,
    }
)

Wanted = dict[tuple[bytes, int], FetchPartition]
"""Topic id and number of each partition, and what is asked for of it."""


class Asked(NamedTuple):
    """What a request says of its session."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FollowerSession:
    """What the leader knows of us, over one connection."""

    __slots__ = ("_epoch", "_id", "_sent")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The next request names everything."""
        self._id, self._epoch = _NONE, _FIRST_EPOCH
        self._sent: Wanted = {}

    def ask(self, wanted: Wanted) -> Asked:
        """The request for all of `wanted`."""
        sent, self._sent = self._sent, wanted
        changed = (item for item in wanted.items() if sent.get(item[0]) != item[1])
        gone = (key for key in sent if key not in wanted)
        return Asked(self._id, self._epoch, _by_topic(changed), _numbers_by_topic(gone))

    def answered(self, error: int, session_id: int) -> bool:
        """What the answer says of the session; whether everything has to be asked for anew."""
        if error in _OUT_OF_STEP or session_id == _NONE:
            self.forget()
            return error in _OUT_OF_STEP
        self._id = session_id
        self._epoch = self._epoch + 1 if self._epoch < _EPOCH_MAX else 1
        return False


def _by_topic(wanted: Iterable[tuple[tuple[bytes, int], FetchPartition]]) -> list[FetchTopic]:
    topics: dict[bytes, list[FetchPartition]] = {}
    for (topic_id, _), partition in wanted:
        topics.setdefault(topic_id, []).append(partition)
    return [FetchTopic(None, topic_id, partitions) for topic_id, partitions in topics.items()]


def _numbers_by_topic(gone: Iterable[tuple[bytes, int]]) -> list[ForgottenTopic]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in gone:
        topics.setdefault(topic_id, []).append(number)
    return [ForgottenTopic(None, topic_id, numbers) for topic_id, numbers in topics.items()]
