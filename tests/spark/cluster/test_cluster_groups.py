"""Offsets of groups that nobody has joined."""

import pytest
from confluent_kafka import Consumer
from tests.spark.cluster.stage import WAIT_S, Stage, connection, make_topic

from barnabas.spark.cluster import groups, transactions
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.errors import NotAnsweredError, SparkJobError


def test_two_groups_do_not_see_each_other(cluster: Cluster) -> None:
    first, second = make_topic(cluster, "shared", 2)
    cluster.commit_offsets("one", {first: 3, second: 4})
    cluster.commit_offsets("two", {first: 7})
    cluster.commit_offsets("two", {})
    assert cluster.committed_offsets("one", None, stable=True) == {first: (3, ""), second: (4, "")}
    assert cluster.committed_offsets("two", [first, second], stable=False) == {first: (7, "")}
    assert cluster.committed_offsets("two", [], stable=False) == {}
    cluster.commit_offsets("two", {first: 2})
    assert cluster.committed_offsets("two", None, stable=True) == {first: (2, "")}


@pytest.mark.parametrize("stable", [True, False])
def test_a_group_that_nobody_knows_has_no_offsets(cluster: Cluster, stable: bool) -> None:
    (place,) = make_topic(cluster, f"unread-{stable}")
    assert cluster.committed_offsets("nobody", [place], stable=stable) == {}
    assert cluster.committed_offsets("nobody", None, stable=stable) == {}


def test_a_lost_answer_is_asked_for_again(stage: Stage) -> None:
    (place,) = make_topic(stage.cluster, "lossy")
    stage.road.to_lose[groups.OFFSET_COMMIT] = 2
    stage.cluster.commit_offsets("lossy", {place: 11})
    stage.road.to_lose[groups.OFFSET_FETCH] = 2
    assert stage.cluster.committed_offsets("lossy", None, stable=True) == {place: (11, "")}
    assert stage.road.to_lose.total() == 0


def test_stable_offsets_wait_for_an_open_transaction(stage: Stage) -> None:
    (place,) = make_topic(stage.cluster, "pending")
    hasty = Cluster(connection(stage.road.port, patience_s=0.2))
    producer = transactions.init_producer_id(stage.cluster, "pending")
    marker = {place: (5, "batch 5")}
    transactions.commit_offsets_in(stage.cluster, "pending", producer, "pending", marker)
    assert stage.cluster.committed_offsets("pending", [place], stable=False) == {}
    with pytest.raises(NotAnsweredError, match="UNSTABLE_OFFSET_COMMIT"):
        hasty.committed_offsets("pending", [place], stable=True)
    transactions.end(stage.cluster, "pending", producer, commit=True)
    assert stage.cluster.committed_offsets("pending", [place], stable=True) == marker
    hasty.close()


def test_a_group_with_members_is_not_written_over(stage: Stage) -> None:
    (place,) = make_topic(stage.cluster, "consumed")
    consumer = Consumer(
        {
            "bootstrap.servers": stage.broker.bootstrap_servers,
            "group.id": "busy",
            "log_level": 0,
        }
    )
    joined: list[object] = []
    consumer.subscribe(["consumed"], on_assign=lambda _, places: joined.extend(places))
    for _ in range(round(WAIT_S / 0.1)):
        consumer.poll(0.1)
        if joined:
            break
    assert joined
    with pytest.raises(SparkJobError, match=r"UNKNOWN_MEMBER_ID.*kafka\.group\.id of its own"):
        stage.cluster.commit_offsets("busy", {place: 1})
    consumer.close()
