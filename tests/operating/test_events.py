"""What two looks at a cluster tell of what happened between them."""

from dataclasses import replace

from barnabas.operating.events import Event, changes, present
from barnabas.operating.health import health_of
from barnabas.operating.rolling import needs, next_broker, not_preferred, out_of_sync, under_min_isr
from barnabas.operating.snapshot import (
    NOBODY,
    BrokerFacts,
    Moving,
    PartitionFacts,
    Place,
    Snapshot,
    TopicFacts,
)

BROKERS = {number: BrokerFacts(number, "h", 9091 + number) for number in (1, 2, 3)}
HOME = PartitionFacts(leader=1, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 2, 3))


def cluster(**partitions: PartitionFacts) -> Snapshot:
    """One topic for each; all three brokers are there."""
    return Snapshot(
        cluster_id="c",
        controller=1,
        brokers=BROKERS,
        topics={name: TopicFacts(f"id-{name}", {0: facts}) for name, facts in partitions.items()},
    )


def without(snapshot: Snapshot, *numbers: int) -> Snapshot:
    left = {number: each for number, each in BROKERS.items() if number not in numbers}
    return replace(snapshot, brokers=left)


def happened(before: Snapshot, after: Snapshot, known: set[int] | None = None) -> list[Event]:
    return changes(before, after, known or {1, 2, 3})


def kinds(events: list[Event]) -> list[str]:
    return [each.kind for each in events]


def test_nothing_happens_when_nothing_changes() -> None:
    assert happened(cluster(t=HOME), cluster(t=HOME)) == []


def test_a_broker_dies_and_comes_back() -> None:
    before = cluster(t=HOME)
    after = replace(
        without(cluster(t=replace(HOME, leader=2, leader_epoch=5, isr=(2, 3))), 1), controller=3
    )
    events = happened(before, after)
    assert kinds(events) == ["broker-dead", "controller-moved", "leader-moved", "isr-shrunk"]
    assert events[2].text == "t-0 is led by broker 2, after broker 1 (epoch 5)"
    assert events[3].text == "the ISR of t-0 shrank by 1: 2,3 of 1,2,3"
    assert events[3].facts == {"topic": "t", "partition": 0, "isr": [2, 3], "changed": [1]}
    back = replace(before, controller=3, topics=after.topics)
    assert kinds(happened(after, back)) == ["broker-back"]
    assert kinds(happened(after, back, {2, 3})) == ["broker-joined"]
    assert kinds(happened(back, cluster(t=replace(HOME, leader_epoch=6)))) == [
        "controller-moved",
        "leader-moved",
        "isr-grown",
    ]


def test_epochs_tell_of_elections_that_were_missed() -> None:
    (event,) = happened(cluster(t=HOME), cluster(t=replace(HOME, leader_epoch=7)))
    assert event.facts["missed"] == 2
    assert event.text == "t-0 is led by broker 1 anew (epoch 7, 2 more elections before)"


def test_what_an_ill_informed_broker_tells_is_no_event() -> None:
    behind = replace(HOME, leader=3, leader_epoch=3, isr=(3,))
    assert happened(cluster(t=HOME), cluster(t=behind)) == []


def test_a_partition_goes_offline_and_online() -> None:
    gone = without(cluster(t=replace(HOME, leader=NOBODY, leader_epoch=5, isr=(1,))), 1)
    assert kinds(happened(cluster(t=HOME), gone)) == [
        "broker-dead",
        "partition-offline",
        "isr-shrunk",
    ]
    led = cluster(t=replace(HOME, leader_epoch=6, isr=(1,)))
    assert kinds(happened(gone, led)) == ["broker-back", "partition-online"]


def test_topics_come_grow_and_go() -> None:
    assert kinds(happened(cluster(), cluster(t=HOME))) == ["topic-created"]
    assert kinds(happened(cluster(t=HOME), cluster())) == ["topic-deleted"]
    another = replace(cluster(t=HOME), topics={"t": TopicFacts("other", {0: HOME})})
    assert kinds(happened(cluster(t=HOME), another)) == ["topic-deleted", "topic-created"]
    grown = replace(cluster(t=HOME), topics={"t": TopicFacts("id-t", {0: HOME, 1: HOME})})
    (event,) = happened(cluster(t=HOME), grown)
    assert (event.kind, event.topic) == ("partitions-added", "t")


def test_replicas_move() -> None:
    before = cluster(t=replace(HOME, replicas=(1, 2), isr=(1, 2)))
    during = replace(
        cluster(t=replace(HOME, replicas=(3, 2, 1), isr=(1, 2))),
        moving={Place("t", 0): Moving((3,), (1,))},
    )
    after = cluster(t=PartitionFacts(3, 5, (3, 2), (3, 2)))
    assert kinds(happened(before, during)) == ["replicas-moving"]
    events = happened(during, after)
    assert kinds(events) == ["leader-moved", "isr-shrunk", "isr-grown", "replicas-moved"]
    assert events[-1].text == "t-0 is on 3,2, and was on 3,2,1"
    # What is being made is not missed yet.
    assert health_of(during, {}).is_good


def test_one_look_tells_how_things_are() -> None:
    found = present(without(cluster(t=replace(HOME, isr=(1, 2))), 3))
    assert kinds(found) == [
        "broker-present",
        "broker-present",
        "broker-dead",
        "controller-present",
        "topic-present",
        "isr-short",
    ]


def test_health_names_what_is_wrong() -> None:
    good = cluster(t=HOME)
    assert health_of(good, {"t": 2}).is_good
    bad = health_of(without(cluster(t=replace(HOME, leader=3, isr=(3,))), 3), {"t": 2})
    place = Place("t", 0)
    assert (bad.dead, bad.without_leader, bad.under_min_isr, bad.under_replicated) == (
        [3],
        [place],
        [place],
        [place],
    )
    # No topic can have more in sync than it has replicas, whatever its setting says.
    alone = PartitionFacts(1, 0, (1,), (1,))
    assert health_of(cluster(t=alone), {"t": 2}).is_good


def test_the_controller_is_restarted_last() -> None:
    assert next_broker({1, 2, 3}, 1) == 2
    assert next_broker({1, 3}, 1) == 3
    assert next_broker({1}, 1) == 1


def test_a_broker_that_is_needed_may_not_be_stopped() -> None:
    place = Place("t", 0)
    snapshot = cluster(t=replace(HOME, isr=(1, 2)), u=HOME)
    assert out_of_sync(snapshot) == place
    assert under_min_isr(snapshot, {"t": 2}) is None
    assert under_min_isr(snapshot, {"t": 3}) == place
    assert needs(snapshot, 2, {"t": 2, "u": 2}) == place
    assert needs(snapshot, 3, {"t": 2, "u": 2}) is None
    assert needs(cluster(t=PartitionFacts(1, 0, (1,), (1,))), 1, {}) == place


def test_preferred_leaders_that_could_lead() -> None:
    assert not_preferred(cluster(t=HOME, u=replace(HOME, leader=2))) == [Place("u", 0)]
    assert not_preferred(cluster(t=replace(HOME, leader=2, isr=(2, 3)))) == []
