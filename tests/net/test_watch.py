"""How long a peer may take, judged without a clock."""

from dataclasses import replace

from barnabas.net.limits import NetLimits
from barnabas.net.watch import Sight, Watch

LIMITS = NetLimits(
    frame_wait_s_max=30.0,
    frame_rate_bytes_min=1000,
    connection_idle_s_max=600.0,
    outbox_wait_s_max=40.0,
)
STILL = Sight(received=0, sent=0, requests=0, partial=False, busy=False, full=False)


def watch() -> Watch:
    return Watch(LIMITS, 0.0)


def test_an_idle_connection_ends() -> None:
    one = watch()
    assert one.look(599.0, STILL) is None
    assert one.look(600.0, STILL) == "idle for 600 s"


def test_traffic_in_either_direction_or_work_in_hand_is_not_idleness() -> None:
    for sign_of_life in (
        replace(STILL, received=1),
        replace(STILL, sent=1),
        replace(STILL, busy=True),
    ):
        one = watch()
        assert one.look(599.0, sign_of_life) is None
        assert one.look(1198.0, replace(sign_of_life, busy=False)) is None
        assert one.look(1200.0, replace(sign_of_life, busy=False)) is not None


def test_a_frame_that_stalls_ends_the_connection() -> None:
    one = watch()
    begun = replace(STILL, received=10, partial=True)
    assert one.look(5.0, begun) is None
    assert one.look(34.0, replace(begun, received=11)) is None
    verdict = one.look(36.0, replace(begun, received=12))
    assert verdict == "sent less than 1000 bytes a second of a frame"


def test_a_frame_that_keeps_its_pace_may_take_long() -> None:
    one = watch()
    for second in range(0, 300, 5):
        sight = replace(STILL, received=1100 * second, partial=True)
        assert one.look(float(second), sight) is None


def test_a_burst_does_not_excuse_the_stall_after_it() -> None:
    one = watch()
    stalled = replace(STILL, received=50_000_000, partial=True)
    assert one.look(0.0, replace(stalled, received=1)) is None
    assert one.look(30.0, stalled) is None
    assert one.look(60.0, stalled) is not None


def test_many_small_frames_each_seen_half_done_are_not_one_slow_frame() -> None:
    one = watch()
    for number in range(100):
        sight = replace(STILL, received=number, requests=number, partial=True)
        assert one.look(number * 5.0, sight) is None


def test_a_peer_that_reads_nothing_ends_only_while_its_outbox_is_full() -> None:
    one = watch()
    full = replace(STILL, full=True, busy=True)
    assert one.look(10.0, replace(full, full=False)) is None
    assert one.look(40.0, full) is None
    assert one.look(49.0, full) is None
    assert one.look(50.0, full) == "read nothing for 40 s with its answers waiting"


def test_any_progress_of_a_slow_reader_is_enough() -> None:
    one = watch()
    for number in range(1, 50):
        sight = replace(STILL, full=True, sent=number)
        assert one.look(number * 39.0, sight) is None


def test_quiet_means_nothing_since_the_look_before() -> None:
    one = watch()
    one.look(1.0, replace(STILL, received=5))
    assert not one.quiet
    one.look(2.0, replace(STILL, received=5))
    assert one.quiet
