"""What a follower says to a leader that remembers."""

from barnabas.model.errors import ErrorCode
from barnabas.replica.fetch_session import FollowerSession, Wanted
from barnabas.wire.fetch import FetchPartition

A, B = bytes(16), bytes([1]) * 16


def wanted(*places: tuple[bytes, int, int]) -> Wanted:
    return {
        (topic, number): FetchPartition(number, 0, offset, 0, 0, 2**20, None, 0)
        for topic, number, offset in places
    }


def named(session: FollowerSession, *places: tuple[bytes, int, int]) -> list[tuple[bytes, int]]:
    asked = session.ask(wanted(*places))
    return [(t.topic_id or b"", each.index) for t in asked.topics for each in t.partitions]


def test_only_what_has_changed_is_named() -> None:
    session = FollowerSession()
    assert named(session, (A, 0, 0), (A, 1, 0), (B, 0, 0)) == [(A, 0), (A, 1), (B, 0)]
    assert not session.answered(0, 77)
    assert named(session, (A, 0, 0), (A, 1, 5), (B, 0, 0)) == [(A, 1)]
    assert not session.answered(0, 77)
    asked = session.ask(wanted((B, 0, 0), (B, 1, 0)))
    assert (asked.session_id, asked.session_epoch) == (77, 2)
    assert [(each.topic_id, each.partitions) for each in asked.forgotten] == [(A, [0, 1])]
    assert [len(each.partitions) for each in asked.topics] == [1]


def test_who_is_not_remembered_names_everything() -> None:
    session = FollowerSession()
    for _ in range(3):
        asked = session.ask(wanted((A, 0, 0), (B, 0, 0)))
        assert (asked.session_id, asked.session_epoch, len(asked.topics)) == (0, 0, 2)
        assert not session.answered(0, 0)


def test_who_is_out_of_step_begins_anew() -> None:
    for error in (
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    ):
        session = FollowerSession()
        session.ask(wanted((A, 0, 0)))
        assert not session.answered(0, 5)
        assert named(session, (A, 0, 0)) == []
        assert session.answered(error.value, 0)
        assert named(session, (A, 0, 0)) == [(A, 0)]


def test_epochs_wrap_around() -> None:
    session = FollowerSession()
    session.ask(wanted((A, 0, 0)))
    session._epoch = 2**31 - 1
    session.answered(0, 5)
    assert session.ask(wanted((A, 0, 0))).session_epoch == 1
