"""A client as it behaves: it stops using a partition before it confirms to have given it up."""

from tests.coordinator.consumer.stage import Stage

from barnabas.coordinator.group.asks import Assignment, ConsumerHeartbeatAnswer
from barnabas.model.errors import ErrorCode, KafkaError

Owned = set[tuple[bytes, int]]
FENCED = (
    ErrorCode.fenced_member_epoch,
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_instance_id,
)


class Consumer:
    """Holds what an answer assigned, until a heartbeat of its own said that it does not."""

    def __init__(
        self,
        stage: Stage,
        member_id: str,
        names: tuple[str, ...],
        regex: str | None = None,
        instance_id: str | None = None,
    ) -> None:
        self.stage = stage
        self.member_id = member_id
        self.names = names
        self.regex = regex
        self.instance_id = instance_id
        self.epoch = 0
        self.holds: Owned = set()
        self.assigned: Owned = set()
        self.revokes_at_once = True
        self.must_say_all = True
        self._said: Owned | None = None

    @property
    def is_in(self) -> bool:
        """Whether it believes itself, rightly, a member: the coordinator has not fenced it."""
        group = self.stage.groups.get("g")
        return self.epoch > 0 and group is not None and self.member_id in group.members

    def revoke(self) -> None:
        """Stop using what it shall not keep. The next heartbeat says so."""
        self.holds &= self.assigned

    def beat(self, *, answer_is_lost: bool = False) -> None:
        """Heartbeat, and do as the answer says, as far as it arrives."""
        if self.revokes_at_once:
            self.revoke()
        try:
            answer = self._ask()
        except KafkaError as error:
            self.must_say_all = True
            if answer_is_lost:
                return
            if error.code in FENCED:
                self.forget()
            elif error.code is not ErrorCode.unreleased_instance_id:
                raise
            return
        self.must_say_all = answer_is_lost
        if not answer_is_lost:
            self._follow(answer)

    def leave(self, epoch: int = -1) -> None:
        """Close: nothing is used any more."""
        member_id, instance_id, was_in = self.member_id, self.instance_id, self.is_in
        self.forget()
        if was_in:
            self.stage.ask(member_id, epoch, instance_id=instance_id)

    def forget(self) -> None:
        """Fenced, or gone."""
        self.epoch = 0
        self.holds, self.assigned = set(), set()
        self.must_say_all = True

    def _ask(self) -> ConsumerHeartbeatAnswer:
        full = self.must_say_all or self.epoch == 0
        said, self._said = self._said, set(self.holds)
        return self.stage.ask(
            self.member_id,
            self.epoch,
            instance_id=self.instance_id,
            topic_names=self.names if full else None,
            topic_regex=self.regex if full else None,
            rebalance_timeout_ms=30_000 if full else -1,
            owned=_by_topic(self.holds) if full or said != self.holds else None,
        )

    def _follow(self, answer: ConsumerHeartbeatAnswer) -> None:
        assert answer.member_epoch >= self.epoch, "a member's epoch goes back"
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return
        self.assigned = {
            (topic_id, number)
            for topic_id, numbers in answer.assignment.items()
            for number in numbers
        }
        self.holds |= self.assigned


def _by_topic(owned: Owned) -> Assignment:
    by_topic: dict[bytes, tuple[int, ...]] = {}
    for topic_id, number in sorted(owned):
        by_topic[topic_id] = (*by_topic.get(topic_id, ()), number)
    return by_topic
