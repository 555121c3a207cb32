"""Who gets a place, and how often it is said that one did not."""

import logging

import pytest

from barnabas.net.admission import Admission, is_loopback
from barnabas.net.complaints import Complaints
from barnabas.net.limits import NetLimits


def test_places_are_finite_and_given_back() -> None:
    door = Admission(NetLimits(connections_max=2))
    assert door.enter("10.0.0.1") is None
    assert door.enter("10.0.0.2") is None
    assert "2 connections are open" in (door.enter("10.0.0.3") or "")
    door.leave("10.0.0.1")
    assert door.enter("10.0.0.3") is None
    assert door.open == 2


def test_one_address_can_not_take_every_place() -> None:
    door = Admission(NetLimits(connections_max=100, connections_per_address_max=3))
    assert [door.enter("10.0.0.1") for _ in range(3)] == [None] * 3
    assert "from this address" in (door.enter("10.0.0.1") or "")
    assert door.enter("10.0.0.2") is None
    door.leave("10.0.0.1")
    assert door.enter("10.0.0.1") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_exempt_from_the_address_limit_but_not_from_the_whole(host: str) -> None:
    door = Admission(NetLimits(connections_max=5, connections_per_address_max=1))
    assert [door.enter(host) for _ in range(5)] == [None] * 5
    assert door.enter(host) is not None


@pytest.mark.parametrize("host", ["10.0.0.1", "128.0.0.1", "::", "::127.0.0.1", "fe80::1", ""])
def test_others_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_fewer_descriptors_mean_fewer_connections() -> None:
    assert NetLimits(connections_max=5000).within_descriptors(1024).connections_max == 512
    assert NetLimits(connections_max=50).within_descriptors(1024).connections_max == 50


def test_the_same_complaint_is_logged_once_a_second_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    complaints = Complaints(logging.getLogger("test"), lambda: now)
    for _ in range(5):
        complaints.say("decode", "Closing a.")
    complaints.say("refused", "Refused b.")
    now = 1.5
    complaints.say("decode", "Closing c.")
    assert [record.getMessage() for record in caplog.records] == [
        "Closing a.",
        "Refused b.",
        "Closing c. (4 more like it were not logged)",
    ]


def test_other_limits_hold_at_once() -> None:
    door = Admission(NetLimits(connections_max=1))
    assert door.enter("10.0.0.1") is None
    assert door.enter("10.0.0.1") is not None
    door.limits = NetLimits(connections_max=2)
    assert door.enter("10.0.0.1") is None
