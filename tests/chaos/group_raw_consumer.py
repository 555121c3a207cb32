"""A raw member of a group of the consumer protocol (KIP-848): heartbeats, and nothing else."""

import time
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID, uuid4

from tests.chaos import group_asks
from tests.chaos.group_moments import Phase
from tests.chaos.group_raw import RawMember
from tests.chaos.talk import Place

from barnabas.model.errors import ErrorCode

REBALANCE_MS: Final = 20_000
_JOINING: Final = 0
_LEAVING: Final = -1
_REVOKES_S: Final = (0.0, 0.05)


class RawConsumerMember(RawMember):
    """Uses what it was given until it says that it does so no more."""

    _is_full = True
    """Whether the next heartbeat says everything: the first, and each after one that failed."""
    _has_news = False
    """Whether what it owns has changed since it last said so."""
    _may_be_gone = False
    """Whether it asked to leave and was not answered."""

    def live(self) -> None:
        if not self.member_id:
            self.member_id = str(uuid4())
            self.generation, self._is_full = _JOINING, True
        if self.is_leaving and self.present:
            self.leave()
            if not self.member_id:
                self.stay_away()
            return
        was_present = self.present
        if not self._beat():
            return
        if not was_present:
            self.has_come()
        if self.begin_where_the_group_is(self.generation):
            self.read_and_commit()

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "group_id": self.group, "member_id": self.member_id, "member_epoch": self.generation,
            "rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None,
        }  # fmt: skip
        if self._is_full:
            body["rebalance_timeout"] = REBALANCE_MS
            body["subscribed_topic_names"] = list(self.stage.topics)
        if self._is_full or self._has_news:
            body["topic_partitions"] = _rows(self.owned, self.stage.names)
        return body

    def _beat(self) -> bool:
        """One heartbeat, and what its answer asks for; False when it was refused."""
        body = self._body()
        if body["topic_partitions"] is not None:
            self.notes.keep(self.group, self.member_id, self.owned)
        # Until the answer is there it may have been heard or not: then everything is said again.
        self._is_full = True
        answer = self.ask(group_asks.CONSUMER_GROUP_HEARTBEAT, body)
        gone = (ErrorCode.unknown_member_id,) if self._may_be_gone else ()
        if self.refused(answer.error_code, *gone):
            if answer.error_code not in group_asks.AWAY:
                self._start_over()
            return False
        self._is_full = self._has_news = self._may_be_gone = False
        self.generation = int(answer.member_epoch)
        self.notes.member_epoch(self.group, self.member_id, self.generation)
        if answer.assignment is not None:
            self._take(group_asks.places_of(answer.assignment.topic_partitions, self.stage.names))
        return True

    def _take(self, assigned: frozenset[Place]) -> None:
        """First note what is given; then give up what is not, after a while."""
        added, revoked = assigned - self.owned, self.owned - assigned
        self.notes.own(self.group, self.member_id, self.generation, added)
        self.owned |= added
        if revoked:
            self.stage.moments.at(Phase.REVOKING)
            self.notes.count("revocations")
            time.sleep(self.random.uniform(*_REVOKES_S))
            self.forget(revoked)
        self._has_news = bool(added or revoked)

    def _start_over(self) -> None:
        """Under another id."""
        self.notes.keep(self.group, self.member_id, ())
        self.forget(set(self.owned))
        self.member_id = ""
        self.present = self._may_be_gone = False

    def leave(self) -> None:
        self.notes.keep(self.group, self.member_id, ())
        self.forget(set(self.owned))
        self._may_be_gone = True
        body = {"group_id": self.group, "member_id": self.member_id, "member_epoch": _LEAVING}
        code = self.ask(group_asks.CONSUMER_GROUP_HEARTBEAT, body).error_code
        # One that had left already, but was not told so, is not known.
        self.refused(code, ErrorCode.unknown_member_id)
        if code not in group_asks.AWAY:
            self._start_over()


def _rows(places: set[Place], names: Mapping[UUID, str]) -> list[dict[str, Any]]:
    ids = {name: topic_id for topic_id, name in names.items()}
    return [
        {"topic_id": ids[topic], "partitions": numbers}
        for topic, numbers in group_asks.by_topic(places).items()
    ]
