"""A raw member of a classic group: joins, shares out when it leads, syncs, reads, leaves."""

from typing import Any, Final

from tests.chaos import group_asks
from tests.chaos.group_asks import by_topic
from tests.chaos.group_moments import Phase
from tests.chaos.group_raw import RawMember
from tests.chaos.talk import Place

from barnabas.model.errors import ErrorCode
from barnabas.wire.stored.consumer_protocol import (
    Subscription,
    encode_assignment,
    encode_subscription,
)

SESSION_MS: Final = 2_000
"""A member that left shortly before a restart may come back with the log, and then has to be
missed for so long."""

_PROTOCOL: Final = "range"
_AGAIN: Final = (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation)


class RawClassicMember(RawMember):
    """Gives up everything before each join (eager)."""

    _sync: dict[str, Any] | None = None
    """The SyncGroup that is to be answered."""
    _sync_is_repeated = False

    def live(self) -> None:
        if self.is_leaving and self.present:
            self.leave()
            self.stay_away()
        elif self._sync is not None:
            self._share()
        elif not self.present:
            self._join()
        elif self._is_wanted() and self.begin_where_the_group_is():
            self.read_and_commit()

    def _start_over(self, code: ErrorCode) -> None:
        """Join again; under a new id when the old one is not known."""
        self.present = False
        self._sync = None
        self.forget(set(self.owned))
        if code is ErrorCode.unknown_member_id:
            self.member_id = ""

    def _join(self) -> None:
        newest = self.notes.newest_generation(self.group)
        subscription = encode_subscription(Subscription(topics=self.stage.topics))
        body = {
            "group_id": self.group, "member_id": self.member_id,
            "session_timeout": SESSION_MS, "rebalance_timeout": 3 * SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": _PROTOCOL, "metadata": subscription}],
        }  # fmt: skip
        answer = self.ask(group_asks.JOIN_GROUP, body)
        if answer.error_code is ErrorCode.member_id_required:
            self.member_id = answer.member_id
            return
        if self.refused(answer.error_code, *_AGAIN, ErrorCode.unknown_member_id):
            self._start_over(answer.error_code)
            return
        self.generation = int(answer.generation_id)
        self.notes.join(self.group, self.generation, newest)
        leads = answer.leader == self.member_id
        members = [each.member_id for each in answer.members] if leads else []
        self._sync = {
            "group_id": self.group, "generation_id": self.generation, "member_id": self.member_id,
            "protocol_type": "consumer", "protocol_name": _PROTOCOL,
            "assignments": self._shares(members),
        }  # fmt: skip
        self._sync_is_repeated = False
        self.stage.moments.at(Phase.JOINED)

    def _shares(self, members: list[str]) -> list[dict[str, Any]]:
        """In another order each time, so that partitions do change hands."""
        places = list(self.stage.places)
        self.random.shuffle(places)
        dealt = {each: places[at :: len(members)] for at, each in enumerate(members)}
        return [
            {"member_id": each, "assignment": _assignment(mine)} for each, mine in dealt.items()
        ]

    def _share(self) -> None:
        """SyncGroup; one that was not answered is sent again."""
        sync = self._sync or {}
        repeated, self._sync_is_repeated = self._sync_is_repeated, True
        phase = Phase.SYNCING if sync["assignments"] else None
        answer = self.ask(group_asks.SYNC_GROUP, sync, phase)
        code = answer.error_code
        if self.refused(code, *_AGAIN, ErrorCode.unknown_member_id):
            if code not in group_asks.AWAY:
                self._start_over(code)
            return
        share = group_asks.assignment_places(answer.assignment)
        self.notes.sync(self.group, self.generation, self.member_id, share)
        if repeated and sync["assignments"]:
            self.notes.count("SyncGroup written, not answered")
        self._sync = None
        self.owned = set(share)
        self.has_come()

    def _is_wanted(self) -> bool:
        """Heartbeat."""
        body = {
            "group_id": self.group, "generation_id": self.generation, "member_id": self.member_id,
        }  # fmt: skip
        code = self.ask(group_asks.HEARTBEAT, body).error_code
        if code in group_asks.AWAY:
            self.refused(code)
            return False
        if self.refused(code, *_AGAIN, ErrorCode.unknown_member_id):
            self._start_over(code)
            return False
        return True

    def leave(self) -> None:
        members = [{"member_id": self.member_id}]
        answer = self.ask(group_asks.LEAVE_GROUP, {"group_id": self.group, "members": members})
        codes = {answer.error_code, *(each.error_code for each in answer.members)}
        for code in codes & group_asks.AWAY:
            self.refused(code)
            return
        codes -= {ErrorCode.none, ErrorCode.unknown_member_id}
        if codes:
            self.journal.complain(f"{self.name}: could not leave: {codes}")
        self._start_over(ErrorCode.unknown_member_id)


def _assignment(places: list[Place]) -> bytes:
    return encode_assignment(
        tuple((topic, tuple(numbers)) for topic, numbers in by_topic(places).items())
    )
