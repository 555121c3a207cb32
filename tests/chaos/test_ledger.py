"""The checker itself: what is lost, changed, doubled or out of order does not escape it."""

from collections.abc import Iterator

import pytest
from tests.chaos import talk
from tests.chaos.journal import Journal, Mark, value_of
from tests.chaos.ledger import Ledger

from barnabas.link.sync import Link
from barnabas.testing import Broker

_PLACE = "checked", 0


@pytest.fixture
def link() -> Iterator[Link]:
    """A connection to a broker with an empty topic."""
    with Broker(memory=True) as broker, Link(broker.host, broker.port) as link:
        talk.create_topic(link, _PLACE[0])
        yield link


def _store(link: Link, *numbers: int) -> None:
    values = (value_of(Mark("w", number)) for number in numbers)
    talk.produce(link, _PLACE, talk.batch_of(*values))


def _read(link: Link, *, idempotent: bool = True) -> Ledger:
    ledger = Ledger(lambda _: idempotent)
    ledger.read(link, _PLACE)
    return ledger


def test_what_is_there_is_no_problem(link: Link) -> None:
    _store(link, 0, 1, 2)
    journal = Journal()
    for number in range(3):
        journal.acknowledge(_PLACE, number, Mark("w", number))
        journal.see(_PLACE, number, Mark("w", number))
    journal.acknowledge(_PLACE, -1, Mark("w", 2))
    ledger = _read(link)
    ledger.compare(journal.take())
    _store(link, 3)
    ledger.read(link, _PLACE)
    assert ledger.records == 4
    assert not ledger.problems + journal.problems


@pytest.mark.parametrize(("offset", "number"), [(2, 2), (1, 7), (-1, 7)])
def test_lost_and_changed_records(link: Link, offset: int, number: int) -> None:
    _store(link, 0, 1)
    journal = Journal()
    journal.acknowledge(_PLACE, offset, Mark("w", number))
    ledger = _read(link)
    ledger.compare(journal.take())
    assert len(ledger.problems) == 1


def test_duplicates_and_wrong_order(link: Link) -> None:
    _store(link, 0, 1, 1)
    assert len(_read(link).problems) == 1
    assert not _read(link, idempotent=False).problems
    _store(link, 5, 4)
    assert len(_read(link, idempotent=False).problems) == 1


def test_a_log_that_became_another(link: Link) -> None:
    _store(link, 0, 1)
    ledger = _read(link)
    talk.delete_topic(link, _PLACE[0])
    talk.create_topic(link, _PLACE[0])
    _store(link, 1, 0)
    ledger.read(link, _PLACE)
    assert len(ledger.problems) == 1


def test_one_offset_for_two_records() -> None:
    journal = Journal()
    journal.acknowledge(_PLACE, 5, Mark("w", 1))
    journal.acknowledge(_PLACE, 5, Mark("w", 2))
    assert len(journal.problems) == 1
